"""Where batches run: in this process, or on a Ray cluster's workers, behind one seam."""
