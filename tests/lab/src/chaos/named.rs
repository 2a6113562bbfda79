//! A limit that two routes share, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

/// The limit, in some forms.
const SHARED: [&str; 4] = [
    "{ in_flight: 1 }",
    "{ rates: [{ amount: 2, per: second }] }",
    "{ in_flight: 2, rates: [{ amount: 1, per: second }] }",
    "{ rates: [{ amount: 4, per: second, of: items }, { amount: 90, per: minute }] }",
];
/// The limits of the route, of which most name the shared one.
pub(super) const NAMING: [&str; 4] =
    ["[shared]", "[shared, { in_flight_per_target: 1 }]", "[{ in_flight: 2, pause: route }, shared]", "{}"];

/// The same file with a second route, which takes some of the tasks and shares a limit with the first; or none. Permits
/// are not shared with a pulled route.
pub(super) fn of(dice: &mut StdRng, routes: &str) -> Option<String> {
    if !dice.random_bool(0.25) || routes.contains("downstream: pull") {
        return None;
    }
    let mut one_of = |choices: [&'static str; 4]| choices[dice.random_range(0..4)];
    let head = format!("limits: {{ shared: {} }}\nroutes:\n", one_of(SHARED));
    let letters = format!(
        "  - {{ name: letters, when: \"n == `1` || n == `2` || n == `5`\", target: truck, limits: [shared], \
         downstream: {}, batch: {{ max_items: 2, wait_ms: 500 }}, notify: {{ success: default }} }}\n",
        super::CALLED
    );
    let routes = with_line(routes, "    limits: ", one_of(NAMING));
    Some(routes.replace("routes:\n", &format!("{head}{letters}")))
}

/// The same file with another value after this beginning of a line.
pub(super) fn with_line(routes: &str, begin: &str, value: &str) -> String {
    let other = |line: &str| if line.starts_with(begin) { format!("{begin}{value}\n") } else { format!("{line}\n") };
    routes.lines().map(other).collect()
}

/// Tells whether a file has that limit.
pub(super) fn is_in(routes: &str) -> bool {
    routes.contains("limits: { shared")
}
