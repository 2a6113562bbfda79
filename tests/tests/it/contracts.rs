//! What is published is what the code reads.

use std::path::Path;

use groupage_core::domain::task_message;
use groupage_core::routes::{self, Routes};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for (name, schema) in [("task-message", task_message::schema()), ("routes", routes::schema())] {
        let published: serde_json::Value = serde_json::from_str(&read(&format!("infra/schemas/{name}.json"))).unwrap();
        assert_eq!(
            published,
            serde_json::to_value(schema).unwrap(),
            "stale: cargo run -p groupage -- schema {name} > infra/schemas/{name}.json"
        );
    }
}

#[test]
fn the_example_routes_file_is_good() {
    Routes::parse(&read("infra/routes.yaml")).unwrap();
}
