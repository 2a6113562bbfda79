//! Bodies made smaller, and those of answers as they were. What a body becomes follows from it alone: each attempt
//! sends the same bytes.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{MAX_ANSWER_BYTES, NoAnswer};
use groupage_core::routes::downstream::Compression;
use tracing::warn;

/// A body as it goes over the wire. The largest takes a tenth of a second, in which other calls must go on.
pub(crate) async fn compressed(body: &str, by: Option<Compression>) -> Result<Cow<'_, [u8]>, NoAnswer> {
    let Some(by) = by else { return Ok(Cow::Borrowed(body.as_bytes())) };
    let body = body.as_bytes().to_vec();
    let made = tokio::task::spawn_blocking(move || compress(&body, by)).await.map_err(io::Error::other);
    made.flatten().map(Cow::Owned).map_err(|error| {
        warn!(%error, "a body cannot be compressed");
        NoAnswer::Other(Reason::new("body_uncompressible"))
    })
}

/// An answer's body as it was before its encoding, within the bound of every answer.
pub(crate) fn decoded(body: Vec<u8>, encoding: Option<&[u8]>) -> Result<Vec<u8>, NoAnswer> {
    match encoding {
        None | Some(b"identity" | b"") => Ok(body),
        Some(b"gzip" | b"x-gzip") => {
            let mut out = Vec::new();
            let mut decoder = MultiGzDecoder::new(body.as_slice()).take(MAX_ANSWER_BYTES as u64 + 1);
            let unreadable = |_| NoAnswer::Unreadable(Reason::new("answer_encoded"));
            decoder.read_to_end(&mut out).map_err(unreadable)?;
            if out.len() > MAX_ANSWER_BYTES { Err(NoAnswer::TooLarge) } else { Ok(out) }
        }
        Some(_) => Err(NoAnswer::Unreadable(Reason::new("answer_encoded"))),
    }
}

fn compress(body: &[u8], by: Compression) -> io::Result<Vec<u8>> {
    match by {
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body)?;
            encoder.finish()
        }
        Compression::Zstd => zstd::bulk::compress(body, zstd::DEFAULT_COMPRESSION_LEVEL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_decoded_within_its_bound_and_what_cannot_be_is_told() {
        let gzip = |body: &[u8]| compress(body, Compression::Gzip).unwrap();
        let decode = |body: Vec<u8>, encoding: &str| decoded(body, Some(encoding.as_bytes()));
        let unreadable = Err(NoAnswer::Unreadable(Reason::new("answer_encoded")));
        assert_eq!(decode(gzip(b"{}"), "gzip"), Ok(b"{}".to_vec()));
        assert_eq!(decode(gzip(&vec![b' '; MAX_ANSWER_BYTES]), "x-gzip").map(|body| body.len()), Ok(MAX_ANSWER_BYTES));
        assert_eq!(decode(gzip(&vec![b' '; 100 * MAX_ANSWER_BYTES]), "gzip"), Err(NoAnswer::TooLarge));
        assert_eq!([decode(b"{}".to_vec(), "gzip"), decode(b"{}".to_vec(), "br")], [unreadable.clone(), unreadable]);
    }

    #[test]
    fn a_body_comes_out_as_it_went_in_and_is_the_same_each_time() {
        let body = r#"{"items":[{"id":"a"}]}"#.repeat(1_000);
        for by in [Compression::Gzip, Compression::Zstd] {
            let made = compress(body.as_bytes(), by).unwrap();
            assert!(made.len() * 50 < body.len(), "{by:?}: {}", made.len());
            assert_eq!(made, compress(body.as_bytes(), by).unwrap());
            let mut out = String::new();
            match by {
                Compression::Gzip => flate2::read::GzDecoder::new(&made[..]).read_to_string(&mut out).unwrap(),
                Compression::Zstd => zstd::Decoder::new(&made[..]).unwrap().read_to_string(&mut out).unwrap(),
            };
            assert_eq!(out, body);
        }
    }
}
