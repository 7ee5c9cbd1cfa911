"""Size and type inference: from syntax trees to a fully sized, typed program, or the reasons why not."""
