//! What lies before the IP header, by the link types of the registry of pcap
//! (draft-ietf-opsawg-pcaplinktype).

/// Two VLAN tags, and one more.
const TAGS_MOST: usize = 3;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// A session of PPPoE (RFC 2516).
const PPPOE: u16 = 0x8864;
const PPPOE_HEADER: usize = 8;

/// The known link types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Ethernet,
    /// An IP header is the first.
    Raw,
    /// The family in the byte order of the writing host, or of the network.
    Loopback,
    /// Linux cooked, version 1 and 2: captures of all devices.
    Cooked,
    Cooked2,
}

impl Link {
    fn of(number: i32) -> Option<Link> {
        Some(match number {
            0 | 108 => Link::Loopback,
            1 => Link::Ethernet,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            _ => return None,
        })
    }
}

/// The IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Offset of its header.
    pub at: usize,
    /// Ethernet's number for IPv4 or IPv6.
    pub protocol: u16,
    /// Bytes from the link header to the packet's end, as its own header has it; `None`: it does not say.
    pub length: Option<usize>,
    /// Whether it is a fragment behind the first.
    pub is_fragment: bool,
    /// A number for the device and the direction, if the link header has them.
    pub device: Option<u32>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// The link type is not known.
    LinkType,
    /// It carries something else: ARP, MPLS, control packets of PPPoE.
    OtherProtocol,
    /// The headers were cut off.
    Cut,
}

fn u16_at(data: &[u8], at: usize) -> Result<u16, Without> {
    let bytes = data.get(at..at + 2).ok_or(Without::Cut)?;
    Ok(bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u16::from(*byte)))
}

/// The number of Ethernet for the version of the IP header there.
fn by_version(data: &[u8], at: usize) -> Result<u16, Without> {
    match data.get(at).ok_or(Without::Cut)? >> 4 {
        4 => Ok(IPV4),
        6 => Ok(IPV6),
        _ => Err(Without::OtherProtocol),
    }
}

/// The number of Ethernet for the packet in a session of PPPoE (RFC 2516, section 6).
fn in_pppoe(data: &[u8], at: usize) -> Result<u16, Without> {
    if u16_at(data, at)? != 0x1100 {
        return Err(Without::OtherProtocol);
    }
    match u16_at(data, at + 6)? {
        0x0021 => Ok(IPV4),
        0x0057 => Ok(IPV6),
        _ => Err(Without::OtherProtocol),
    }
}

/// Finds the IP packet of a frame.
pub fn network(link_type: i32, data: &[u8]) -> Result<Network, Without> {
    let link = Link::of(link_type).ok_or(Without::LinkType)?;
    let mut device = None;
    let (mut at, mut protocol) = match link {
        Link::Ethernet => (14, u16_at(data, 12)?),
        Link::Raw => (0, by_version(data, 0)?),
        Link::Loopback => (4, by_version(data, 4)?),
        Link::Cooked => {
            device = Some(u32::from(u16_at(data, 0)?));
            (16, u16_at(data, 14)?)
        }
        Link::Cooked2 => {
            let index = u32::from(u16_at(data, 6)?);
            device = Some(index << 8 | u32::from(u16_at(data, 10)? >> 8));
            (20, u16_at(data, 0)?)
        }
    };
    for _ in 0..TAGS_MOST {
        if VLAN.contains(&protocol) {
            protocol = u16_at(data, at + 2)?;
            at += 4;
        }
    }
    if protocol == PPPOE {
        protocol = in_pppoe(data, at)?;
        at += PPPOE_HEADER;
    }
    if protocol != IPV4 && protocol != IPV6 {
        return Err(Without::OtherProtocol);
    }
    let (length, is_fragment) = match protocol {
        IPV4 => {
            let total = usize::from(u16_at(data, at + 2)?);
            let fragment = u16_at(data, at + 6)?;
            (total, fragment & 0x1fff != 0)
        }
        _ => {
            let payload = usize::from(u16_at(data, at + 4)?);
            let next = *data.get(at + 6).ok_or(Without::Cut)?;
            let total = if payload > 0 { payload + 40 } else { 0 };
            (total, next == 44)
        }
    };
    Ok(Network {
        at,
        protocol,
        length: (length > 0).then_some(at + length),
        is_fragment,
        device,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of an IPv4 header of so many bytes in all.
    fn ipv4(total: u8) -> Vec<u8> {
        vec![0x45, 0, 0, total, 0, 0, 0, 0, 64, 6]
    }

    fn found(link_type: i32, before: &[u8]) -> Result<(usize, u16, Option<usize>), Without> {
        let data = [before, &ipv4(40)].concat();
        network(link_type, &data).map(|n| (n.at, n.protocol, n.length))
    }

    #[test]
    fn each_link_type_leads_to_the_ip_header() {
        let mut ethernet = [0; 14];
        ethernet[12..].copy_from_slice(&[8, 0]);
        assert_eq!(found(1, &ethernet), Ok((14, IPV4, Some(54))));
        assert_eq!(found(101, &[]), Ok((0, IPV4, Some(40))));
        assert_eq!(found(0, &[2, 0, 0, 0]), Ok((4, IPV4, Some(44))));
        assert_eq!(found(108, &[0, 0, 0, 2]), Ok((4, IPV4, Some(44))));
        let mut cooked = [0; 16];
        cooked[14..].copy_from_slice(&[8, 0]);
        assert_eq!(found(113, &cooked), Ok((16, IPV4, Some(56))));
        let mut cooked2 = [0; 20];
        cooked2[..11].copy_from_slice(&[8, 0, 0, 0, 0, 0, 0, 3, 0, 0, 4]);
        assert_eq!(found(276, &cooked2), Ok((20, IPV4, Some(60))));
        let data = [&cooked2[..], &ipv4(40)].concat();
        assert_eq!(network(276, &data).map(|n| n.device), Ok(Some(0x304)));
    }

    #[test]
    fn vlan_tags_are_looked_through() {
        let mut tagged = [0; 22];
        tagged[12..].copy_from_slice(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]);
        assert_eq!(found(1, &tagged), Ok((22, IPV4, Some(62))));
    }

    #[test]
    fn pppoe_sessions_are_looked_through() {
        let header = |code, protocol| {
            let mut bytes = [0; 22];
            bytes[12..].copy_from_slice(&[0x88, 0x64, 0x11, code, 0, 7, 0, 42, 0, protocol]);
            bytes
        };
        assert_eq!(found(1, &header(0, 0x21)), Ok((22, IPV4, Some(62))));
        assert_eq!(found(1, &header(0, 0x23)), Err(Without::OtherProtocol));
        assert_eq!(found(1, &header(0xa7, 0x21)), Err(Without::OtherProtocol));
    }

    #[test]
    fn other_packets_than_ip_are_reported() {
        let mut arp = [0; 14];
        arp[12..].copy_from_slice(&[8, 6]);
        assert_eq!(found(1, &arp), Err(Without::OtherProtocol));
        assert_eq!(found(105, &[]), Err(Without::LinkType));
        assert_eq!(network(1, &[0; 9]), Err(Without::Cut));
        assert_eq!(network(101, &[0x45, 0]), Err(Without::Cut));
        let fragment = [0x45, 0, 0, 40, 0, 0, 0, 9, 64, 6];
        assert_eq!(network(101, &fragment).map(|n| n.is_fragment), Ok(true));
    }
}
