"""Tables and arrays in files of the user's, as occurrences of items in the order of a stream."""
