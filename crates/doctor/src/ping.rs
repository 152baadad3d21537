//! Layer 2: what a TCP connect takes, measured as psping does it: one after the other, those of a warm-up left out.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::facts::Connects;

/// How one attempt ended.
#[derive(Debug)]
pub(crate) enum Attempt {
    Took(Duration),
    Late,
    Failed(io::Error),
}

/// One attempt.
pub(crate) async fn once(to: SocketAddr, patience: Duration) -> Attempt {
    let begun = Instant::now();
    match tokio::time::timeout(patience, TcpStream::connect(to)).await {
        Err(_) => Attempt::Late,
        Ok(Err(why)) => Attempt::Failed(why),
        Ok(Ok(stream)) => {
            let took = begun.elapsed();
            drop(stream);
            Attempt::Took(took)
        }
    }
}

/// `count` attempts that count, `pause` apart, with one before them that does not; ends early when `limit` has passed.
pub(crate) async fn series(to: SocketAddr, count: u32, pause: Duration, limit: Duration) -> Connects {
    let mut connects = Connects::default();
    let until = Instant::now() + limit;
    for number in 0..=count {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let attempt = once(to, left.min(Duration::from_secs(4))).await;
        if number > 0 {
            connects.sent += 1;
            match attempt {
                Attempt::Took(took) => connects.times_ms.push(took.as_secs_f64() * 1000.0),
                Attempt::Late | Attempt::Failed(_) => connects.lost += 1,
            }
        }
        tokio::time::sleep(pause).await;
    }
    connects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_counts_is_counted_and_the_warm_up_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let connects = series(to, 3, Duration::ZERO, Duration::from_secs(10)).await;
        assert_eq!((connects.sent, connects.lost, connects.times_ms.len()), (3, 0, 3));
        drop(listener);
        let connects = series(to, 2, Duration::ZERO, Duration::from_secs(10)).await;
        assert_eq!((connects.sent, connects.lost), (2, 2));
        let connects = series(to, 2, Duration::ZERO, Duration::ZERO).await;
        assert_eq!(connects.sent, 0);
    }
}
