"""Training and running compiled specs on data: what `dslc train` and `dslc run` do, without the command line."""
