//! Known inputs, those that once failed among them, fail no more.

use std::{fs, path::Path};

use tcpilot_fuzz::TARGETS;

#[test]
fn known_inputs_of_each_target_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, target) in TARGETS {
        let mut count = 0;
        for kind in ["corpus", "regressions"] {
            let Ok(files) = fs::read_dir(root.join(kind).join(name)) else {
                continue;
            };
            for file in files {
                let file = file.expect("a name").path();
                println!("{}", file.display());
                target(&fs::read(&file).expect("a file"));
                count += 1;
            }
        }
        assert!(count > 0, "{name} has no input");
    }
}
