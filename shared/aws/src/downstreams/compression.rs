//! Bodies made smaller. What a body becomes follows from it alone: each attempt sends the same bytes.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::write::GzEncoder;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
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
    use std::io::Read;

    use super::*;

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
