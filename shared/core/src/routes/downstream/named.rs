//! How a route names what AWS has: by a name, an ARN or a queue's URL.
//!
//! Only the form is judged: whether there is such a thing, and may be called, shows at its first call.

use serde::{Deserialize, Deserializer, de};

/// What a route may write for a thing of AWS.
pub(super) struct Form {
    /// What it is of.
    pub(super) what: &'static str,
    /// How to write it.
    pub(super) as_what: &'static str,
    /// Whether a text has the form.
    pub(super) holds: fn(&str) -> bool,
}

impl Form {
    /// Reads a text that has the form.
    pub(super) fn read<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<String, D::Error> {
        let text = String::deserialize(deserializer)?;
        if (self.holds)(&text) {
            return Ok(text);
        }
        Err(de::Error::custom(format!("`{text}` is no {}: write it as {}", self.what, self.as_what)))
    }
}

/// What an ARN of this service names.
pub(super) fn in_arn<'a>(arn: &'a str, service: &str) -> Option<&'a str> {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    match parts[..] {
        ["arn", partition, of, region, account, resource]
            if of == service && [partition, region, account].iter().all(|part| is_name(part, 64, "-")) =>
        {
            Some(resource)
        }
        _ => None,
    }
}

/// Whether a text is a name of at most this many bytes: letters, digits and these characters.
pub(super) fn is_name(text: &str, most: usize, also: &str) -> bool {
    (1..=most).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

#[cfg(test)]
mod tests {
    use crate::routes::Routes;

    fn check(downstream: &str) -> Result<(), String> {
        let route = format!("version: 1\nroutes:\n  - {{ name: a, target: t, downstream: {{ {downstream} }} }}\n");
        Routes::parse(&route).map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_aws_could_have_is_taken_and_all_else_is_refused_with_how_to_write_it() {
        let arn = |rest: &str| format!("arn:aws-cn:{rest}");
        let (long, longest) = ("n".repeat(65), "n".repeat(64));
        for (kind, how, good, bad) in [
            (
                "lambda: { function:",
                "`NAME` or `arn:aws:lambda:REGION:ACCOUNT:function:NAME`",
                vec![
                    longest,
                    "my-f_1:live".to_owned(),
                    "f:$LATEST".to_owned(),
                    "123456789012:function:f:7".to_owned(),
                    "eu-west-1:123456789012:function:f".to_owned(),
                    "us-gov-east-1:123456789012:function:f:live".to_owned(),
                    arn("lambda:eu-west-1:1:function:f"),
                    arn("lambda:eu-west-1:1:function:f:live"),
                ],
                vec![
                    String::new(),
                    long,
                    "my function".to_owned(),
                    "f:a:b".to_owned(),
                    "https://f".to_owned(),
                    arn("sqs:eu-west-1:1:f"),
                    arn("lambda:eu-west-1:1:layer:f"),
                    arn("lambda::1:function:f"),
                    "eu-west-1:1:function:f".to_owned(),
                    "a:eu-west-1:123456789012:function:f".to_owned(),
                    ":123456789012:function:f".to_owned(),
                ],
            ),
            (
                "eventbridge: { bus:",
                "`NAME` or `arn:aws:events:REGION:ACCOUNT:event-bus/NAME`",
                vec!["default".to_owned(), "a/b.c".to_owned(), arn("events:eu-west-1:1:event-bus/b")],
                vec![String::new(), "my bus".to_owned(), "n".repeat(257), arn("events:eu-west-1:1:rule/b")],
            ),
            (
                "step_functions: { state_machine:",
                "`arn:aws:states:REGION:ACCOUNT:stateMachine:NAME`",
                vec![
                    arn("states:eu-west-1:1:stateMachine:m"),
                    arn("states:eu-west-1:1:stateMachine:m:live"),
                    arn("states:eu-west-1:1:stateMachine:Aufträge-訂單"),
                    arn(&format!("states:eu-west-1:1:stateMachine:{}", "訂".repeat(80))),
                ],
                vec![
                    "m".to_owned(),
                    arn("states:eu-west-1:1:stateMachine:"),
                    arn("states:eu-west-1:1:stateMachine:m*"),
                    arn("states:eu-west-1:1:stateMachine:m n"),
                    arn(&format!("states:eu-west-1:1:stateMachine:{}", "訂".repeat(81))),
                    arn("states:eu-west-1:1:execution:m:e"),
                ],
            ),
            (
                "sqs: { queue:",
                "`https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`",
                vec!["https://sqs.eu-west-1.amazonaws.com/1/q".to_owned(), "http://localhost:1/0/q-1.fifo".to_owned()],
                vec![
                    "q".to_owned(),
                    "https://sqs.eu-west-1.amazonaws.com".to_owned(),
                    "https://x/1/q.tar".to_owned(),
                    "https://x/1/q?a=b".to_owned(),
                    arn("sqs:eu-west-1:1:q"),
                ],
            ),
        ] {
            for name in good {
                assert_eq!(check(&format!("{kind} '{name}' }}")), Ok(()), "{kind} {name}");
            }
            for name in bad {
                let error = check(&format!("{kind} '{name}' }}")).expect_err(&name);
                assert!(error.contains(how) && error.contains(&format!("`{name}` is no ")), "{error}");
            }
        }
    }
}
