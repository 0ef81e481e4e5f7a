//! How each dependency is asked whether it is there.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::ops::health::Probed;
use crate::store::postgres::Database;
use crate::store::redis::RedisStore;

const CONNECT_MAX: Duration = Duration::from_millis(500);

pub(super) async fn redis(redis: RedisStore) -> Probed {
    let answer: Result<String, _> = redis.command(&::redis::cmd("PING")).await;
    answer.map(drop).map_err(|error| error.to_string())
}

pub(super) async fn postgres(database: Database) -> Probed {
    database.ping().await.map_err(|error| error.to_string())
}

/// Whether anybody accepts connections at one of these `http://HOST:PORT`.
pub(super) async fn any_listens(urls: Vec<String>) -> Probed {
    let mut why = "no address".to_owned();
    for url in urls {
        match listens(&url).await {
            Ok(()) => return Ok(()),
            Err(error) => why = format!("{url}: {error}"),
        }
    }
    Err(why)
}

async fn listens(url: &str) -> Probed {
    let url: http::Uri = url.parse().map_err(|_| "is not a URL".to_owned())?;
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let connect = TcpStream::connect((host, url.port_u16().unwrap_or(80)));
    match tokio::time::timeout(CONNECT_MAX, connect).await {
        Ok(Ok(_connected)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("did not answer within 500 ms".to_owned()),
    }
}
