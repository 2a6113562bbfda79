//! Which network an address belongs to: what may be called by everybody, and what a call could reach only from inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The internet.
    Public,
    /// Somebody's own network: 10.0.0.0/8, fc00::/7 and the like.
    Private,
    /// This machine. In a Lambda function that is the runtime, which takes commands there.
    Loopback,
    /// The link, where clouds serve metadata and credentials, and what is nobody's address.
    Special,
}

impl Network {
    /// The network of an address. An IPv6 address that wraps an IPv4 address leads where that one does.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => wrapped(address).map_or_else(|| of_v6(address), of_v4),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Network {
    match address.octets() {
        [127, ..] => Network::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Network::Private,
        // Carriers' and clouds' own; one serves metadata at 100.100.100.200, which is told apart from the others.
        [100, 100, 100, 200] => Network::Special,
        [100, 64..=127, ..] => Network::Private,
        // This network, the link, protocols, documentation, measurements, multicast, reserved.
        [0, ..]
        | [169, 254, ..]
        | [192, 0, 0 | 2, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [224..=255, ..] => Network::Special,
        _ => Network::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Network {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Network::Loopback,
        // The metadata of EC2 lies among the unique local addresses.
        [0xfd00, 0x0ec2, ..] => Network::Special,
        [0xfc00..=0xfdff, ..] => Network::Private,
        // Documentation, and tunnels whose other end an address only hides.
        [0x2001, 0x0000 | 0x0db8, ..] => Network::Special,
        // Only these are global unicast.
        [0x2000..=0x3fff, ..] => Network::Public,
        _ => Network::Special,
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, of a translator (64:ff9b::/96) or of 6to4
/// (2002::/16).
fn wrapped(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_into_the_network_that_its_registry_says() {
        let networks = [
            (Network::Loopback, "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::"),
            (
                Network::Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fd12::1 fc00::1 ::ffff:10.1.2.3 \
                 64:ff9b::a00:1 2002:c0a8:101::1",
            ),
            (
                Network::Special,
                "169.254.169.254 169.254.170.2 100.100.100.200 0.0.0.0 0.1.2.3 192.0.0.1 192.0.2.1 198.18.0.1 \
                 198.51.100.1 203.0.113.9 224.0.0.1 255.255.255.255 240.0.0.1 :: fe80::1 fec0::1 ff02::1 fd00:ec2::254 \
                 2001:db8::1 2001::1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: ::169.254.169.254 \
                 64:ff9b:1::1 100::1 4000::1",
            ),
            (
                Network::Public,
                "1.1.1.1 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 192.0.1.1 11.0.0.1 223.255.255.254 \
                 2606:4700::1111 2600::1 3fff:ffff::1 ::ffff:8.8.8.8",
            ),
        ];
        for (network, addresses) in networks {
            for address in addresses.split_whitespace() {
                assert_eq!(Network::of(address.parse().unwrap()), network, "{address}");
            }
        }
    }
}
