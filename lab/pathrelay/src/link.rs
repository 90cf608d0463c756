//! The description of a path, as the command line gives it.

use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

/// A device in a namespace: `NAMESPACE/DEVICE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub namespace: String,
    pub device: String,
}

/// A path between two devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub near: End,
    pub far: End,
    /// From near to far.
    pub delay: Duration,
    /// From far to near.
    pub back: Duration,
    /// Loss of packets from near to far.
    pub loss: Loss,
    pub seed: u64,
    /// In the order of their times.
    pub changes: Vec<Change>,
    /// The trace limiting the rate from near to far after the signal; in place of a delay.
    pub trace: Option<PathBuf>,
    /// How much waits for the trace; packets beyond it are dropped.
    pub queue_bytes: usize,
    /// The file of destinations with a delay and loss of their own.
    pub destinations: Option<PathBuf>,
}

/// Destinations with the same delay and loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    pub delay: Duration,
    /// Share of packets, 0 to 1.
    pub loss: f64,
    pub addresses: Vec<IpAddr>,
}

impl Own {
    /// From lines `ADDRESS DELAY_MS LOSS`, in the order of their first lines.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn all(text: &str) -> Result<Vec<Own>, Wrong> {
        let mut found: Vec<Own> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[address, delay, loss] = &words[..] else {
                return Err(Wrong::Line(line.into()));
            };
            let address: IpAddr = address.parse().map_err(|_| Wrong::Line(line.into()))?;
            let (delay, loss) = (time("delay_ms", delay)?, share("loss", loss)?);
            match found
                .iter_mut()
                .find(|own| own.delay == delay && own.loss == loss)
            {
                Some(own) => own.addresses.push(address),
                None => found.push(Own {
                    delay,
                    loss,
                    addresses: vec![address],
                }),
            }
        }
        Ok(found)
    }
}

/// Random loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Share of lost packets, 0 to 1.
    pub share: f64,
    /// Mean number of packets lost in a row; 1: each by itself.
    pub burst: f64,
}

/// New values for the way from near to far; what is `None` stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// After the signal.
    pub at: Duration,
    pub delay: Option<Duration>,
    pub share: Option<f64>,
    pub burst: Option<f64>,
}

/// A mistake in a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A part without KEY=VALUE.
    #[error("'{0}' is not KEY=VALUE")]
    Part(String),
    /// An unknown key.
    #[error(
        "there is no key '{0}'; the keys are near, far, delay_ms, back_ms, loss, burst, seed, change, destinations, trace and queue_bytes"
    )]
    Key(String),
    /// An invalid value of a known key.
    #[error("{key}={value}: wanted is {wanted}")]
    Value {
        key: String,
        value: String,
        wanted: &'static str,
    },
    /// A line of the file of destinations.
    #[error("'{0}' is not ADDRESS DELAY_MS LOSS")]
    Line(String),
    /// A missing end.
    #[error("{0}=NAMESPACE/DEVICE is missing")]
    Missing(&'static str),
}

const LONGEST_MS: f64 = 60_000.0;
const LONGEST_S: f64 = 1e6;
const LONGEST_BURST: f64 = 1e6;
/// A hundred full packets.
const QUEUE_BYTES: usize = 150_000;

fn whole<T: FromStr>(key: &str, value: &str) -> Result<T, Wrong> {
    value.parse().map_err(|_| Wrong::Value {
        key: key.into(),
        value: value.into(),
        wanted: "a whole number",
    })
}

fn number(key: &str, value: &str, most: f64, wanted: &'static str) -> Result<f64, Wrong> {
    let wrong = || Wrong::Value {
        key: key.into(),
        value: value.into(),
        wanted,
    };
    let number: f64 = value.parse().map_err(|_| wrong())?;
    if (0.0..=most).contains(&number) {
        Ok(number)
    } else {
        Err(wrong())
    }
}

fn end(key: &str, value: &str) -> Result<End, Wrong> {
    match value.split_once('/') {
        Some((namespace, device)) if !namespace.is_empty() && !device.is_empty() => Ok(End {
            namespace: namespace.into(),
            device: device.into(),
        }),
        _ => Err(Wrong::Value {
            key: key.into(),
            value: value.into(),
            wanted: "NAMESPACE/DEVICE",
        }),
    }
}

fn time(key: &str, value: &str) -> Result<Duration, Wrong> {
    let ms = number(key, value, LONGEST_MS, "0 to 60000 milliseconds")?;
    Ok(Duration::from_secs_f64(ms / 1e3))
}

fn share(key: &str, value: &str) -> Result<f64, Wrong> {
    number(key, value, 1.0, "a share from 0 to 1")
}

fn burst(key: &str, value: &str) -> Result<f64, Wrong> {
    let packets = number(key, value, LONGEST_BURST, "1 to 1000000 packets")?;
    Ok(packets.max(1.0))
}

fn pair(part: &str) -> Result<(&str, &str), Wrong> {
    part.split_once('=').ok_or_else(|| Wrong::Part(part.into()))
}

impl FromStr for Change {
    type Err = Wrong;

    /// `AT_S:KEY=VALUE[:KEY=VALUE]…`
    fn from_str(text: &str) -> Result<Change, Wrong> {
        let (at_s, parts) = text.split_once(':').unwrap_or((text, ""));
        let at_s = number("change", at_s, LONGEST_S, "SECONDS:KEY=VALUE")?;
        let mut change = Change {
            at: Duration::from_secs_f64(at_s),
            delay: None,
            share: None,
            burst: None,
        };
        for part in parts.split(':') {
            let (key, value) = pair(part)?;
            match key {
                "delay_ms" => change.delay = Some(time(key, value)?),
                "loss" => change.share = Some(share(key, value)?),
                "burst" => change.burst = Some(burst(key, value)?),
                _ => return Err(Wrong::Key(key.into())),
            }
        }
        Ok(change)
    }
}

impl FromStr for Link {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Link, Wrong> {
        let (mut near, mut far) = (None, None);
        let (mut delay, mut back, mut seed) = (Duration::ZERO, Duration::ZERO, 0);
        let mut loss = Loss {
            share: 0.0,
            burst: 1.0,
        };
        let (mut trace, mut queue_bytes) = (None, QUEUE_BYTES);
        let mut changes: Vec<Change> = Vec::new();
        let mut destinations = None;
        for part in text.split(',') {
            let (key, value) = pair(part)?;
            match key {
                "near" => near = Some(end(key, value)?),
                "far" => far = Some(end(key, value)?),
                "delay_ms" => delay = time(key, value)?,
                "back_ms" => back = time(key, value)?,
                "loss" => loss.share = share(key, value)?,
                "burst" => loss.burst = burst(key, value)?,
                "seed" => seed = whole(key, value)?,
                "change" => changes.push(value.parse()?),
                "destinations" => destinations = Some(PathBuf::from(value)),
                "trace" => trace = Some(PathBuf::from(value)),
                "queue_bytes" => queue_bytes = whole(key, value)?,
                _ => return Err(Wrong::Key(key.into())),
            }
        }
        changes.sort_by_key(|change| change.at);
        Ok(Link {
            near: near.ok_or(Wrong::Missing("near"))?,
            far: far.ok_or(Wrong::Missing("far"))?,
            delay,
            back,
            loss,
            seed,
            changes,
            trace,
            queue_bytes,
            destinations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read() {
        let link: Link = "near=r2/f0x0,far=right/r0x0,delay_ms=20.5,loss=0.01"
            .parse()
            .unwrap();
        assert_eq!(link.near.namespace, "r2");
        assert_eq!(link.far.device, "r0x0");
        assert_eq!(link.delay, Duration::from_micros(20_500));
        assert_eq!(link.back, Duration::ZERO);
        assert_eq!((link.loss.share, link.loss.burst), (0.01, 1.0));
        assert_eq!(link.trace, None);
        let link: Link = "near=a/b,far=c/d,burst=5,change=60:loss=0,change=2.5:delay_ms=8:burst=3"
            .parse()
            .unwrap();
        assert_eq!(link.loss.burst, 5.0);
        let [first, second] = link.changes[..] else {
            panic!("{:?}", link.changes);
        };
        assert_eq!(first.at, Duration::from_millis(2500));
        assert_eq!(first.delay, Some(Duration::from_millis(8)));
        assert_eq!((first.share, first.burst), (None, Some(3.0)));
        assert_eq!((second.delay, second.share), (None, Some(0.0)));
        let link: Link = "near=r1/b0,far=r2/n0,trace=lte.trace,queue_bytes=9000"
            .parse()
            .unwrap();
        assert_eq!(link.trace, Some(PathBuf::from("lte.trace")));
        assert_eq!(link.queue_bytes, 9000);
    }

    #[test]
    fn destinations_that_are_alike_are_one() {
        let text = "198.18.0.1 20 0.01\n\n2001:db8::1 20.5 0\n198.18.0.2 20 0.01\n";
        let found = Own::all(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].addresses.len(), 2);
        assert_eq!(found[0].loss, 0.01);
        assert_eq!(found[1].delay, Duration::from_micros(20_500));
        for wrong in ["198.18.0.1 20", "host 20 0", "198.18.0.1 20 2"] {
            assert!(Own::all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("near=a/b", "far=NAMESPACE/DEVICE is missing"),
            ("near", "'near' is not KEY=VALUE"),
            ("near=ab,far=c/d", "near=ab: wanted is NAMESPACE/DEVICE"),
            (
                "near=a/b,far=c/d,delay_ms=-1",
                "delay_ms=-1: wanted is 0 to 60000 milliseconds",
            ),
            (
                "near=a/b,far=c/d,delay_ms=nan",
                "delay_ms=nan: wanted is 0 to 60000 milliseconds",
            ),
            (
                "near=a/b,far=c/d,loss=2",
                "loss=2: wanted is a share from 0 to 1",
            ),
            ("near=a/b,far=c/d,change=5", "'' is not KEY=VALUE"),
            (
                "near=a/b,far=c/d,change=soon:loss=1",
                "change=soon: wanted is SECONDS:KEY=VALUE",
            ),
        ] {
            assert_eq!(text.parse::<Link>().unwrap_err().to_string(), told);
        }
        let told = "near=a/b,jitter=1".parse::<Link>().unwrap_err().to_string();
        assert!(told.starts_with("there is no key 'jitter'"), "{told}");
    }
}
