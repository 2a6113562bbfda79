//! Recorded answers, as `curl --include` prints them.

use std::time::SystemTime;

use groupage_core::ports::Answer;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::http::by_name;
use super::pacing::asked_ms;

/// Reads an answer from its status line, its headers, an empty line and its body; a text without a status line is the
/// body of a 200. Interim answers (1xx) before it are left out.
///
/// # Errors
/// Names the line that is no part of an HTTP answer, from 1.
pub fn recorded_answer(text: &[u8]) -> Result<Answer, usize> {
    if !text.starts_with(b"HTTP/") {
        return Ok(Answer { status: 200, body: text.to_vec(), ..Answer::default() });
    }
    let (mut rest, mut number) = (text, 0_usize);
    loop {
        let (line, after) = split_line(rest);
        (rest, number) = (after, number + 1);
        let status = line.split(' ').nth(1).and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
        let status = status.filter(|_| line.starts_with("HTTP/")).ok_or(number)?;
        let mut headers = HeaderMap::new();
        loop {
            let (line, after) = split_line(rest);
            (rest, number) = (after, number + 1);
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or(number)?;
            let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| number)?;
            headers.append(name, HeaderValue::from_str(value.trim()).map_err(|_| number)?);
        }
        if !status.is_informational() {
            let retry_after_ms = asked_ms(status, &headers, SystemTime::now());
            let (status, headers) = (status.as_u16(), by_name(&headers));
            return Ok(Answer { status, retry_after_ms, headers, body: rest.to_vec(), is_cut: false });
        }
    }
}

fn split_line(text: &[u8]) -> (String, &[u8]) {
    let (line, rest) = match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[][..]),
    };
    (String::from_utf8_lossy(line).trim_end_matches('\r').to_owned(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_answer_has_status_headers_pause_and_body() {
        let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 429 \r\nRetry-After: 2\r\nX-A: 1\r\nx-a: 2\r\n\r\n{}\n";
        let answer = recorded_answer(text).unwrap();
        assert_eq!((answer.status, answer.retry_after_ms, answer.body.as_slice()), (429, Some(2_000), &b"{}\n"[..]));
        assert_eq!(answer.headers["x-a"], "1, 2");
        assert_eq!(recorded_answer(b"{}").unwrap().status, 200);
        assert_eq!(recorded_answer(b"HTTP/1.1 204").unwrap().body, b"");
        assert_eq!(recorded_answer(b"HTTP/1.1 200 OK\n\n").unwrap().body, b"");
    }

    #[test]
    fn what_is_no_answer_is_told_by_its_line() {
        for (text, line) in [("HTTP/1.1 OK", 1), ("HTTP/1.1 200\nno header\n\n", 2), ("HTTP/1.1 200\nA: b\nb c: d", 3)]
        {
            assert_eq!(recorded_answer(text.as_bytes()), Err(line), "{text}");
        }
    }
}
