//! Layer 2: the time of a TCP connect, measured like psping: one after the other, without those of a
//! warm-up.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::measurements::Connects;

/// The longest wait for one attempt.
const PATIENCE: Duration = Duration::from_secs(4);
/// An unanswered packet is sent again after a second (RFC 6298 2.1). An attempt that waits longer has
/// seen a loss.
const SENT_AGAIN: Duration = Duration::from_millis(900);

/// The result of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    Took(Duration),
    Late,
    Failed(io::Error),
}

/// Makes one attempt to connect.
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

/// Makes one attempt that does not count, and `count` that do, `pause` apart. It ends early when `limit`
/// has passed. An attempt that the limit cuts off says nothing, unless it has waited so long that it must
/// have been sent again.
pub(crate) async fn series(to: SocketAddr, count: u32, pause: Duration, limit: Duration) -> Connects {
    let (mut connects, mut warm_up) = (Connects::default(), None);
    let until = Instant::now() + limit;
    for number in 0..=count {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let patience = left.min(PATIENCE);
        let attempt = once(to, patience).await;
        match attempt {
            Attempt::Took(took) if number == 0 => warm_up = Some(took),
            Attempt::Took(took) => connects.times_ms.push(took.as_secs_f64() * 1000.0),
            _ if number == 0 => {}
            Attempt::Late if patience < PATIENCE && !is_overdue(patience, warm_up) => break,
            Attempt::Late | Attempt::Failed(_) => connects.lost += 1,
        }
        connects.sent += u32::from(number > 0);
        tokio::time::sleep(pause).await;
    }
    // On a path that is longer than the whole time, it is the only attempt.
    if let (0, Some(took)) = (connects.sent, warm_up) {
        (connects.sent, connects.times_ms) = (1, vec![took.as_secs_f64() * 1000.0]);
    }
    connects
}

/// Whether an attempt that has waited this long was sent again, judged by the time of the first one.
fn is_overdue(waited: Duration, warm_up: Option<Duration>) -> bool {
    warm_up.is_some_and(|took| waited > took + SENT_AGAIN)
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

    /// A listener that accepts two connections and leaves further ones unanswered (listen(2)).
    fn full() -> tokio::net::TcpListener {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.listen(1).unwrap()
    }

    #[tokio::test]
    async fn a_connect_that_our_own_limit_cuts_off_is_not_lost() {
        let listener = full();
        let to = listener.local_addr().unwrap();
        let connects = series(to, 5, Duration::ZERO, Duration::from_millis(400)).await;
        assert_eq!((connects.sent, connects.lost, connects.times_ms.len()), (1, 0, 1));
        // An attempt that waits until it must have been sent again is lost.
        let listener = full();
        let to = listener.local_addr().unwrap();
        let connects = series(to, 5, Duration::ZERO, Duration::from_millis(1500)).await;
        assert_eq!((connects.sent, connects.lost, connects.times_ms.len()), (2, 1, 1));
    }

    #[tokio::test]
    async fn where_there_is_time_for_the_warm_up_alone_it_counts() {
        let listener = full();
        let to = listener.local_addr().unwrap();
        drop(TcpStream::connect(to).await.unwrap());
        let connects = series(to, 5, Duration::ZERO, Duration::from_millis(300)).await;
        assert_eq!((connects.sent, connects.lost, connects.times_ms.len()), (1, 0, 1));
    }
}
