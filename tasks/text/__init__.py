"""Text as token ids: vocabularies, files of documents, streams kept on disk, and language modelling over them."""
