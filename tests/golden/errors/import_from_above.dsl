import "../blocks.dsl"
import "/etc/passwd"

fn bent(x) = x if x > 0 else x / 10
