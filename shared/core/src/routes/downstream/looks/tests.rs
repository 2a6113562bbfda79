use super::*;
use crate::domain::id::RouteName;
use crate::domain::outcome::Said;
use crate::routes::{Route, Routes};

const URL: &str = "https://a.example/v1/jobs/7";

/// A route of an API with jobs, with these lines in its `http`, and in its `job`.
fn route(http: &str, job: &str) -> Route {
    parsed(http, job, "").unwrap_or_else(|error| panic!("{error}"))
}

fn parsed(http: &str, job: &str, route: &str) -> Result<Route, String> {
    let yaml = format!(
        "version: 1\nroutes:\n  - name: r\n    target: to\n    {route}\n    downstream:\n      http:\n        \
         url: 'https://a.example/v1/batches?key={{secrets.key}}&t={{target}}'\n        \
         secrets: {{ key: {{ env: GROUPAGE_SECRET_OF_TESTS }} }}\n        {http}\n        job:\n          {job}\n"
    );
    let routes = Routes::parse(&yaml).map_err(|error| error.to_string())?;
    Ok(routes.get(&RouteName::new("r")).expect("the route").clone())
}

fn usual() -> Route {
    route("", "{ url: headers.location, ended: \"body.state == 'done'\" }")
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Answer { status, headers, body: body.as_bytes().to_vec(), ..Answer::default() }
}

fn begun(route: &Route, answer: Answer) -> Option<Result<String, Reason>> {
    route.begun(&Ok(answer), &BatchId::new("b1"), &Target::of(&RouteName::new("r"), "a/b"))
}

fn looked(route: &Route, status: u16, body: &str) -> Progress {
    route.looked(Ok(answer(status, &[("location", "/v1/elsewhere")], body)), URL)
}

fn failed(reason: &str, fault: Fault) -> Progress {
    Progress::Failed(Failure { reason: Reason::new(reason), retry_after_ms: None, fault })
}

#[test]
fn a_202_begins_a_job_unless_the_route_says_otherwise() {
    let location = [("location", URL)];
    let usual = usual();
    assert_eq!(begun(&usual, answer(202, &location, "")), Some(Ok(URL.to_owned())));
    assert_eq!(begun(&usual, answer(200, &location, "")), None, "it is read as without a job");
    let by_id = route("", "{ accepted: body.id, url: \"join('', ['/v1/jobs/', body.id])\", ended: body.done }");
    assert_eq!(begun(&by_id, answer(200, &[], r#"{"id":"7"}"#)), Some(Ok(URL.to_owned())));
    assert_eq!(begun(&by_id, answer(202, &[], "{}")), None);
    assert_eq!(begun(&by_id, answer(500, &[], r#"{"id":"7"}"#)), None, "an error has begun nothing");
}

#[test]
fn a_job_is_looked_at_only_where_its_route_calls() {
    let long = format!("/{}", "x".repeat(MAX_URL_BYTES));
    let refused = Err(JOB_URL_REFUSED);
    for (said, url) in [
        (URL, Ok(URL)),
        ("/v1/jobs/7", Ok(URL)),
        ("jobs/7", Ok(URL)),
        ("//a.example/v1/jobs/7", Ok(URL)),
        ("https://A.example:443/v1/jobs/7#now", Ok(URL)),
        ("https://a.example.evil.example/v1/jobs/7", refused),
        ("//evil.example/v1/jobs/7", refused),
        ("https://a.example:8443/v1/jobs/7", refused),
        ("http://a.example/v1/jobs/7", refused),
        ("https://user@a.example/v1/jobs/7", refused),
        ("file:///etc/passwd", refused),
        ("https://[", refused),
        (long.as_str(), refused),
        ("  ", Err(JOB_URL_MISSING)),
    ] {
        let expected = url.map(str::to_owned).map_err(Reason::new);
        assert_eq!(begun(&usual(), answer(202, &[("location", said)], "")), Some(expected), "{said}");
    }
    let missing = Some(Err(Reason::new(JOB_URL_MISSING)));
    assert_eq!(begun(&usual(), answer(202, &[], "")), missing);
    let number = route("", "{ url: body.id, ended: body.done }");
    assert_eq!(begun(&number, answer(202, &[], r#"{"id":7}"#)), missing, "a number is no URL");
    let http = usual().downstream.http().expect("http").clone();
    assert_eq!(http.look_url(URL).map(String::from), Ok(URL.to_owned()));
    assert_eq!(http.look_url("https://b.example/v1/jobs/7"), Err(Reason::new(JOB_URL_REFUSED)), "its route has moved");
}

#[test]
fn a_relative_url_keeps_no_secret_of_the_calls_url() {
    let Some(Ok(url)) = begun(&usual(), answer(202, &[("location", "?job=7")], "")) else { panic!("it has begun") };
    assert_eq!(url, "https://a.example/v1/batches?job=7");
}

#[test]
fn a_look_tells_what_runs_from_what_has_ended_what_is_gone_and_what_fails() {
    let route = usual();
    assert_eq!(looked(&route, 200, r#"{"state":"queued"}"#), Progress::Runs { asked_ms: None });
    assert_eq!(looked(&route, 202, ""), Progress::Runs { asked_ms: None });
    assert!(matches!(looked(&route, 200, r#"{"state":"done"}"#), Progress::Ended(_)));
    for status in [404, 410] {
        assert_eq!(looked(&route, status, ""), Progress::Lost(Reason::new(JOB_NOT_FOUND)));
    }
    for status in [401, 403, 429, 500, 503] {
        assert_eq!(looked(&route, status, r#"{"state":"done"}"#), failed(&format!("http_{status}"), Fault::Downstream));
    }
    assert_eq!(looked(&route, 400, r#"{"state":"done"}"#), failed("http_400", Fault::Downstream));
    assert_eq!(looked(&route, 302, ""), failed("redirect_302", Fault::Downstream));
    assert_eq!(looked(&route, 200, "<html>log in</html>"), failed("answer_html", Fault::Downstream));
    assert_eq!(looked(&route, 200, "<a/>"), failed("answer_xml", Fault::Settings));
    assert_eq!(route.looked(Err(NoAnswer::Timeout), URL), failed("timeout", Fault::Downstream));
    assert_eq!(
        route.looked(Err(NoAnswer::Refused(Reason::new("target_not_in_url"))), URL),
        failed("target_not_in_url", Fault::Downstream)
    );
}

#[test]
fn results_are_where_the_look_says_or_in_its_own_answer() {
    let route = route(
        "",
        "{ url: headers.location, ended: \"status == `303` || body.state == 'failed'\", \
                           results: \"status == `303` && headers.location || body.results\" }",
    );
    assert_eq!(looked(&route, 303, ""), Progress::EndedAt("https://a.example/v1/elsewhere".to_owned()));
    let relative = looked(&route, 200, r#"{"state":"failed","results":"7/results"}"#);
    assert_eq!(relative, Progress::EndedAt("https://a.example/v1/jobs/7/results".to_owned()));
    assert!(matches!(looked(&route, 200, r#"{"state":"failed"}"#), Progress::Ended(_)));
    let elsewhere = looked(&route, 200, r#"{"state":"failed","results":"https://b.example/"}"#);
    assert_eq!(elsewhere, failed(JOB_URL_REFUSED, Fault::Settings), "the file may be corrected before the deadline");
}

#[test]
fn results_are_read_by_the_mapping_of_the_job_and_a_fetch_that_is_refused_says_nothing() {
    let route = route(
        "response: { all_succeeded: body.ok }",
        "{ url: headers.location, ended: body.done, response: \
                      { format: ndjson, results: body, id: id, succeeded: ok, unmentioned: failed } }",
    );
    let ids = ["x", "y"].map(TaskId::new);
    let read = |answer| route.read_results(answer, &ids, Earlier::OfNone).reply;
    let said = [(TaskId::new("x"), Said::Succeeded), (TaskId::new("y"), Said::Failed(Reason::new("no_result")))];
    assert_eq!(read(Ok(answer(200, &[], "{\"id\":\"x\",\"ok\":true}\n"))), Reply::PerMember(said.into()));
    for (status, reason) in [(404, "http_404"), (503, "http_503")] {
        let Reply::Unavailable(failure) = read(Ok(answer(status, &[], ""))) else { panic!("{status}") };
        assert_eq!(failure.reason.as_str(), reason);
    }
    assert_eq!(read(Err(NoAnswer::TooLarge)), Reply::Refused(Reason::new("answer_too_large")));
    let unreadable = read(Ok(answer(200, &[], r#"{"id":"z","ok":true}"#)));
    assert!(matches!(unreadable, Reply::Unavailable(Failure { fault: Fault::Settings, .. })), "{unreadable:?}");
}

/// A job that failed, or whose file is not written yet, may say nothing where one that is done names what failed.
#[test]
fn results_that_say_nothing_of_the_members_are_no_success() {
    let of = |response: &str| {
        let job =
            "{ url: headers.location, ended: \"body.state != 'runs'\", results: body.results, response: RESPONSE }";
        route("", &job.replace("RESPONSE", response))
    };
    let silent = of("{ failures: body.errors, id: id, reason: why }");
    let named = of("{ results: body.rows, id: id, succeeded: ok }");
    for route in [&silent, &named] {
        for body in ["", "  ", r#"{"state":"failed"}"#, r#"{"state":"failed","results":null}"#] {
            assert_eq!(looked(route, 200, body), failed("answer_without_results", Fault::Settings), "{body}");
        }
        let Reply::Unavailable(failure) =
            route.read_results(Ok(answer(200, &[], " ")), &[TaskId::new("x")], Earlier::OfNone).reply
        else {
            panic!("blank results are no results")
        };
        assert_eq!(failure.reason.as_str(), "answer_without_results");
    }
    assert!(matches!(looked(&silent, 200, r#"{"state":"done","errors":[]}"#), Progress::Ended(_)));
    let read = silent.read_results(Ok(answer(200, &[], r#"{"rows":7}"#)), &[TaskId::new("x")], Earlier::OfNone).reply;
    assert_eq!(read, Reply::PerMember([(TaskId::new("x"), Said::Succeeded)].into()), "a file that names no failure");
}

#[test]
fn a_file_that_cannot_be_is_refused() {
    let fine = "{ url: headers.location, ended: body.done }";
    let refusal = |http: &str, job: &str, of_route: &str| parsed(http, job, of_route).map(|_| ()).unwrap_err();
    for (http, job, of_route, what) in [
        ("", "{ url: 'a[', ended: body.done }", "", "no JMESPath expression"),
        ("", "{ ended: body.done }", "", "url"),
        ("", "{ url: headers.location }", "", "ended"),
        ("", "{ url: headers.location, ended: body.done, every_s: 1 }", "", "from 2 to 900"),
        ("", "{ url: headers.location, ended: body.done, every_s: 901 }", "", "from 2 to 900"),
        ("", "{ url: headers.location, ended: body.done, deadline_s: 59 }", "", "from 60 to 604800"),
        ("", "{ url: headers.location, ended: body.done, deadline_s: 604801 }", "", "from 60 to 604800"),
        ("", "{ url: headers.location, ended: body.done, polls: 3 }", "", "polls"),
        ("", "{ url: headers.location, ended: body.done, response: { results: body } }", "", "`job.response`"),
        ("response: { ignore_body: true }", fine, "", "ignore_body"),
        ("", "{ url: headers.location, ended: body.done, response: { ignore_body: true } }", "", "job.response.ignore"),
        ("", fine, "on_reject: bisect", "bisect"),
    ] {
        let told = refusal(http, job, of_route);
        assert!(told.contains(what), "{job} {http} {of_route}: {told}");
    }
    let job = route("", "{ url: location, ended: \"body.done == 'true'\" }");
    let doubts = job.job().expect("a job").doubts();
    assert_eq!(doubts.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>(), ["url", "ended"]);
}
