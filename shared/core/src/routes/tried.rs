//! A routes file, tried on a payload that is small: what takes more than its budget for that one takes it for each
//! task.

use serde_json::value::RawValue;

use super::body::{Item, Unmade};
use super::{Error, Routes};
use crate::domain::{BatchId, Target};

const PAYLOAD: &str = r#"{"id":"a","type":"b","n":7,"text":"some words","items":[{"id":"c","n":1},{"id":"d","n":2}]}"#;

impl Routes {
    /// Renders each template once.
    ///
    /// # Errors
    /// The first that takes more than its budget. A stack would bound it for each of its tasks, and fail them.
    pub fn tried(&self) -> Result<(), Error> {
        let Ok(payload) = serde_json::from_str::<&RawValue>(PAYLOAD) else { return Ok(()) };
        for route in &self.routes {
            let over =
                |what: String| Error { line: route.line, column: 1, what: format!("route `{}`: {what}", route.name) };
            let items = ["a", "b"].map(|id| Item { id, payload });
            let made = route.body(&BatchId::new("b"), &Target::of(&route.name, "t"), &items);
            match made {
                Err(Unmade::Template(reason)) if reason.as_str().ends_with("over_budget") => {
                    return Err(over(format!("`body` takes more than its budget for two small payloads ({reason})")));
                }
                Err(Unmade::TooLarge) => return Err(over("`body` is too large for two small payloads".to_owned())),
                Err(Unmade::Template(_)) | Ok(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::Value;

    use super::*;
    use crate::domain::answer::Answer;
    use crate::domain::{RouteName, TaskId};
    use crate::routes::Assigned;
    use crate::routes::Earlier;

    const CORPUS: &str = include_str!("../../../../tests/corpus/greedy.jsonl");
    const NEIGHBOUR: &str = "  - name: neighbour\n    when: type == 'neighbour'\n    target: to\n    downstream: \
                             { http: { url: 'https://a.example/', body: '{% for i in items %}{{ i.payload.to }}{% endfor %}' } }\n";

    fn text(parts: &Value) -> String {
        let part = |part: &Value| match (part.as_str(), part["repeat"].as_str(), part["times"].as_u64()) {
            (Some(text), ..) => text.to_owned(),
            (None, Some(unit), Some(times)) => unit.repeat(usize::try_from(times).unwrap()),
            _ => panic!("{part}"),
        };
        parts.as_array().unwrap().iter().map(part).collect()
    }

    /// Everything that is computed for a task of the hostile route, on payloads that are small, wide and long.
    fn works(routes: &Routes) {
        let numbers = |count: usize| vec!["1"; count].join(",");
        let payload = |numbers: String, words: usize| {
            format!(
                r#"{{"type":"hostile","to":"{}","text":"{}","n":[{numbers}]}}"#,
                "a".repeat(500),
                "x ".repeat(words)
            )
        };
        let payloads = [payload(numbers(3), 1), payload(numbers(100_000), 1), payload(numbers(1), 100_000)];
        for payload in &payloads {
            let _ = routes.assign(payload);
        }
        let route = routes.get(&RouteName::new("hostile")).unwrap();
        let (batch, target) = (BatchId::new("b"), Target::of(&route.name, &"a".repeat(500)));
        let _ = (route.for_target(&target), route.for_target(&target).due(None, crate::domain::Timestamp(0)));
        let dense = format!("[{}]", numbers((1 << 19) - 1));
        let items = |payload: &'static str, count| {
            vec![Item { id: "a", payload: serde_json::from_str(payload).unwrap() }; count]
        };
        for (payload, count) in [(payloads[0].clone(), 50), (payloads[1].clone(), 1), (payloads[2].clone(), 1)] {
            let items = items(payload.leak(), count);
            if let Err(Unmade::Template(reason)) = route.body(&batch, &target, &items) {
                let _ = route.renderable(&batch, &target, &items, &reason);
            }
            // The last one is as long as an answer may be.
            for body in [items[0].payload.get().to_owned(), format!("[{}]", numbers(90_000)), dense.clone()] {
                let answer = Answer { status: 200, body: body.into(), ..Answer::default() };
                let _ = route.read(Ok(answer), &[TaskId::new("a")], Earlier::OfNone);
            }
        }
    }

    fn goes_on(routes: &Routes) -> bool {
        let payload = r#"{"type":"neighbour","to":"x"}"#;
        let items = [Item { id: "a", payload: serde_json::from_str(payload).unwrap() }];
        let body = |assigned: Assigned<'_>| assigned.route.body(&BatchId::new("b"), &assigned.target, &items);
        routes.assign(payload).map(body).is_ok_and(|body| body.is_ok_and(|body| body.text == "x"))
    }

    fn outcome(case: &Value) -> &'static str {
        let yaml = match case.get("file") {
            Some(file) => text(file),
            None => {
                let hostile = text(&case["route"]);
                let when = if hostile.contains("    when: ") { "" } else { "    when: type == 'hostile'\n" };
                format!("version: 1\nroutes:\n  - name: hostile\n    {hostile}\n{when}{NEIGHBOUR}")
            }
        };
        let Ok(routes) = Routes::parse(&yaml) else { return "refused" };
        let _ = routes.doubts(|_| false);
        // What is tried is what a task would meet.
        let is_refused = routes.tried().is_err();
        if !is_refused {
            works(&routes);
        }
        match is_refused {
            _ if !goes_on(&routes) => "its neighbour is lost",
            true => "tried",
            false => "bounded",
        }
    }

    /// In a process of its own, on the stack of a runtime's worker: one that dies, or takes more memory, is seen.
    #[test]
    fn a_greedy_route_is_refused_or_bounded_and_its_neighbour_goes_on() {
        const CHILD: &str = "GROUPAGE_GREEDY";
        let cases: Vec<Value> = CORPUS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(cases.len() >= 60);
        if std::env::var_os(CHILD).is_some() {
            let walk = move || {
                let wrong = cases.iter().filter_map(|case| {
                    println!("{}", case["name"]);
                    let outcome = outcome(case);
                    (outcome != case["outcome"]).then(|| (case["name"].clone(), outcome))
                });
                assert_eq!(wrong.collect::<Vec<_>>(), []);
            };
            std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(walk).unwrap().join().unwrap();
            return;
        }
        let name = format!(
            "{}::{}",
            module_path!().split_once("::").unwrap().1,
            "a_greedy_route_is_refused_or_bounded_and_its_neighbour_goes_on"
        );
        let mut child = Command::new("sh");
        // 600 MB of memory, and the address space that a template's compiler reserves for its stack.
        child.args(["-c", "ulimit -v 760000 && exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
        let done = child.args([&name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("1 passed"), "{:?}: {said}", done.status);
    }
}
