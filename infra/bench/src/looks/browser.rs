//! Asks for pages over HTTP, and measures when the first byte comes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::{Context, Result};
use axum::Router;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Pages, served on a loopback port for as long as the process lives.
#[derive(Debug)]
pub struct Browser(SocketAddr);

/// An answer.
#[derive(Debug)]
pub struct Look {
    pub status: u16,
    pub first_byte_ms: f64,
    /// What the page says of what it read.
    pub read_units: f64,
    pub text: String,
}

impl Browser {
    /// Serves these pages.
    pub async fn open(pages: Router) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, pages).await });
        Ok(Self(address))
    }

    /// Asks for one, on a connection of its own.
    pub async fn get(&self, page: &str) -> Result<Look> {
        let mut stream = TcpStream::connect(self.0).await?;
        let request = format!("GET /console/{page} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.0);
        let began = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let mut answer = vec![stream.read_u8().await?];
        let first_byte_ms = began.elapsed().as_secs_f64() * 1e3;
        stream.read_to_end(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no answer")?;
        let said = text.rsplit("This page read ").next().and_then(|rest| rest.split(' ').next());
        let read_units = said.and_then(|units| units.parse().ok()).unwrap_or(f64::NAN);
        Ok(Look { status, first_byte_ms, read_units, text })
    }
}
