//! The places for clients of the metrics server. If all are taken, the newcomer gets that of the client that has
//! been silent for longest: strangers who say nothing must not shut out a scraper or a probe.

use std::{
    net::{IpAddr, Ipv6Addr, Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The most clients at the same time.
pub(super) const CLIENTS_MAX: usize = 32;
/// The most from one address: others must find places, too.
const OF_ADDRESS_MAX: usize = 16;
/// A client keeps its place for this long. Who asks at once has asked by then, and newcomers wait meanwhile.
const TO_ASK: Duration = Duration::from_millis(100);
/// A client that reads its answer keeps its place for this long.
const TO_READ: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

struct Client {
    number: u64,
    address: IpAddr,
    stream: TcpStream,
    since: Instant,
    is_answered: bool,
}

impl Client {
    /// Whether another may have its place: `None` if not, else the order in which clients go.
    fn goes(&self, now: Instant) -> Option<(bool, Instant)> {
        let kept = if self.is_answered { TO_READ } else { TO_ASK };
        let is_over = now.saturating_duration_since(self.since) >= kept;
        is_over.then_some((self.is_answered, self.since))
    }
}

/// All places.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Vec<Client>>>);

/// A client's place, given back when it is dropped: also if answering panics.
pub(super) struct Place {
    number: u64,
    places: Places,
}

/// An address that one user is likely to have: a whole one of IPv4, a /64 of IPv6.
fn user_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl Places {
    fn all(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for client `number`. It waits, for a second at most, until one can be had.
    pub(super) fn take(&self, number: u64, stream: TcpStream, from: IpAddr) -> Place {
        let address = user_of(from);
        loop {
            let mut all = self.all();
            if make_room(&mut all, address, Instant::now()) {
                all.push(Client {
                    number,
                    address,
                    stream,
                    since: Instant::now(),
                    is_answered: false,
                });
                let places = self.clone();
                return Place { number, places };
            }
            drop(all);
            thread::sleep(POLL);
        }
    }
}

/// Whether there is room for one more from this address; ends the connection of another client for it.
fn make_room(all: &mut Vec<Client>, address: IpAddr, now: Instant) -> bool {
    let of_address = all.iter().filter(|client| client.address == address);
    let is_greedy = of_address.count() >= OF_ADDRESS_MAX;
    if !is_greedy && all.len() < CLIENTS_MAX {
        return true;
    }
    let others = all.iter().enumerate();
    let others = others.filter(|(_, client)| !is_greedy || client.address == address);
    let going = others.filter_map(|(at, client)| Some((client.goes(now)?, at)));
    let Some((_, at)) = going.min() else {
        return false;
    };
    let _ = all.remove(at).stream.shutdown(Shutdown::Both);
    true
}

impl Place {
    /// Notes that the client has asked.
    pub(super) fn note_answer(&self) {
        let mut all = self.places.all();
        if let Some(client) = all.iter_mut().find(|client| client.number == self.number) {
            (client.since, client.is_answered) = (Instant::now(), true);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places
            .all()
            .retain(|client| client.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A client of the address 192.0.2.`host`.
    fn client(number: u64, host: u8, since: Instant) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Client {
            number,
            address: [192, 0, 2, host].into(),
            stream: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            since,
            is_answered: false,
        }
    }

    fn numbers(all: &[Client]) -> Vec<u64> {
        all.iter().map(|client| client.number).collect()
    }

    #[test]
    fn silent_oldest_goes_before_answered_one() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut all: Vec<Client> = (0..32).map(|n| client(n, n as u8, at(n))).collect();
        all[0].is_answered = true;
        assert!(
            !make_room(&mut all, [192, 0, 2, 99].into(), at(100)),
            "they may still ask"
        );
        assert!(make_room(&mut all, [192, 0, 2, 99].into(), at(110)));
        assert_eq!(numbers(&all)[..2], [0, 2]);
        all.iter_mut().for_each(|client| client.is_answered = true);
        all.push(client(32, 99, at(110)));
        all[31].is_answered = true;
        assert!(!make_room(&mut all, [192, 0, 2, 99].into(), at(999)));
        assert!(make_room(&mut all, [192, 0, 2, 99].into(), at(1000)));
        assert_eq!(numbers(&all)[0], 2);
    }

    #[test]
    fn one_address_takes_half_of_all_places() {
        let begun = Instant::now();
        let mut all: Vec<Client> = (0..16).map(|n| client(n, 1, begun)).collect();
        all.insert(0, client(16, 2, begun));
        let now = begun + TO_ASK;
        assert!(make_room(&mut all, [192, 0, 2, 1].into(), now));
        assert_eq!(numbers(&all)[..3], [16, 1, 2]);
        assert!(make_room(&mut all, [192, 0, 2, 2].into(), begun));
        assert_eq!(all.len(), 16, "another address finds a place at once");
        assert_eq!(
            user_of("2001:db8::1:2".parse().unwrap()),
            user_of("2001:db8::3".parse().unwrap())
        );
    }
}
