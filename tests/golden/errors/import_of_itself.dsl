import "import_of_itself.dsl"

fn bent(x) = x if x > 0 else x / 10
