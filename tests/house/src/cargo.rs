//! What cargo says of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One thing that cargo compiles by itself: a library, a binary, an example, a test or a benchmark.
pub struct Target {
    /// The package and its target: `groupage-core/groupage_core`.
    pub name: String,
    /// The file that it starts from.
    pub root: PathBuf,
}

/// The workspace's folder.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// All targets of all members.
pub fn targets() -> Result<Vec<Target>, String> {
    let metadata = run(&["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut targets = Vec::new();
    for package in all(&metadata["packages"]) {
        for target in all(&package["targets"]) {
            let name = format!("{}/{}", text(&package["name"]), text(&target["name"]));
            targets.push(Target { name, root: PathBuf::from(text(&target["src_path"])) });
        }
    }
    Ok(targets)
}

/// The names of all crates in `package`'s tree of normal dependencies, with all its features, on every platform. Those
/// of other platforms are there after `cargo fetch --locked`.
pub fn dependencies(package: &str) -> Result<Vec<String>, String> {
    let which = ["tree", "--package", package, "--edges", "normal", "--all-features", "--target", "all"];
    let tree = run(&[&which[..], &["--prefix", "none", "--format", "{p}"]].concat())
        .map_err(|error| format!("{error}\nIf crates are missing, run `cargo fetch --locked` first."))?;
    Ok(tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn run(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(workspace())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
