//! What each part of the address space is. Pure tables, taken from the IANA
//! special-purpose registries for IPv4 and IPv6 and the clouds' documentation.
//! They say what an address is; [`super::policy`] says what follows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A network and what it is, worded to follow "callbacks may not reach".
type Range<N> = (N, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(head: [u16; 4], prefix: u8) -> Ipv6Net {
    let [a, b, c, d] = head;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

const LOOPBACK_V4: Ipv4Net = v4(127, 0, 0, 0, 8);
const IPV4_MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const LOOPBACK_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);

const REFUSED_V4: &[Range<Ipv4Net>] = &[
    (v4(0, 0, 0, 0, 8), "this host's own network (0.0.0.0/8)"),
    (v4(10, 0, 0, 0, 8), "a private address (RFC 1918)"),
    (v4(100, 64, 0, 0, 10), "a shared address (RFC 6598)"),
    (LOOPBACK_V4, "a loopback address"),
    (v4(169, 254, 0, 0, 16), "a link-local address"),
    (v4(172, 16, 0, 0, 12), "a private address (RFC 1918)"),
    (v4(192, 0, 0, 0, 24), "an address reserved for protocols"),
    (v4(192, 0, 2, 0, 24), "a documentation address"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay address"),
    (v4(192, 168, 0, 0, 16), "a private address (RFC 1918)"),
    (v4(198, 18, 0, 0, 15), "a benchmarking address"),
    (v4(198, 51, 100, 0, 24), "a documentation address"),
    (v4(203, 0, 113, 0, 24), "a documentation address"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    (v4(240, 0, 0, 0, 4), "a reserved or broadcast address"),
];

/// Refused inside 2000::/3. 2001::/23 holds Teredo, ORCHID and benchmarking.
const REFUSED_INSIDE_GLOBAL: &[Range<Ipv6Net>] = &[
    (v6([0x2001, 0, 0, 0], 23), "an address reserved for protocols (Teredo, ORCHID)"),
    (v6([0x2001, 0xdb8, 0, 0], 32), "a documentation address"),
    (v6([0x2002, 0, 0, 0], 16), "a 6to4 address"),
    (v6([0x3fff, 0, 0, 0], 20), "a documentation address"),
];

/// Everything outside 2000::/3 is refused; these ranges have a name.
const REFUSED_OUTSIDE_GLOBAL: &[Range<Ipv6Net>] = &[
    (LOOPBACK_V6, "a loopback address"),
    (IPV4_MAPPED, "an IPv4-mapped address"),
    (v6([0, 0, 0, 0], 96), "an unspecified or IPv4-compatible address"),
    (v6([0x64, 0xff9b, 0, 0], 96), "a NAT64 address"),
    (v6([0x64, 0xff9b, 1, 0], 48), "a NAT64 address"),
    (v6([0x100, 0, 0, 0], 64), "a discard address"),
    (v6([0xfc00, 0, 0, 0], 7), "a private address (unique local)"),
    (v6([0xfe80, 0, 0, 0], 10), "a link-local address"),
    (v6([0xfec0, 0, 0, 0], 10), "a private address (site-local)"),
    (v6([0xff00, 0, 0, 0], 8), "a multicast address"),
];

const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

/// Where clouds hand out credentials. Most lie inside a refused range and stand
/// here because an exception for that range must not open them; Azure's
/// 168.63.129.16 is a public address.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 253)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 0, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Networks whose hosts have names that only mean something inside them.
const INTERNAL: &[IpNet] = &[
    IpNet::V4(v4(10, 0, 0, 0, 8)),
    IpNet::V4(v4(172, 16, 0, 0, 12)),
    IpNet::V4(v4(192, 168, 0, 0, 16)),
    IpNet::V4(v4(100, 64, 0, 0, 10)),
    IpNet::V6(v6([0xfc00, 0, 0, 0], 7)),
];

/// Why an IPv4 address is not an ordinary public one, if it is not.
pub(super) fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    if is_metadata(IpAddr::V4(ip)) {
        return Some("a cloud metadata service");
    }
    name_of(REFUSED_V4, |net| net.contains(&ip))
}

/// Why an IPv6 address is not an ordinary public one, if it is not.
pub(super) fn special_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if is_metadata(IpAddr::V6(ip)) {
        return Some("a cloud metadata service");
    }
    if GLOBAL_UNICAST.contains(&ip) {
        return name_of(REFUSED_INSIDE_GLOBAL, |net| net.contains(&ip));
    }
    name_of(REFUSED_OUTSIDE_GLOBAL, |net| net.contains(&ip))
        .or(Some("an address outside global unicast"))
}

fn name_of<N>(ranges: &[Range<N>], holds: impl Fn(&N) -> bool) -> Option<&'static str> {
    ranges.iter().find(|(net, _)| holds(net)).map(|(_, name)| *name)
}

/// Whether a cloud serves credentials at this address.
pub(super) fn is_metadata(ip: IpAddr) -> bool {
    METADATA.contains(&ip)
}

/// The IPv4 address inside an IPv4-mapped one, or inside one of the well-known
/// NAT64 prefix (RFC 6052).
pub(super) fn embedded_v4(ip: Ipv6Addr) -> Option<Embedded> {
    let [.., a, b, c, d] = ip.octets();
    let inner = Ipv4Addr::new(a, b, c, d);
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(Embedded::Mapped(inner)),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(Embedded::Nat64(inner)),
        _ => None,
    }
}

/// How an IPv6 address carries an IPv4 one.
pub(super) enum Embedded {
    /// The operating system itself connects to the inner address.
    Mapped(Ipv4Addr),
    /// A translator in the network connects to the inner address.
    Nat64(Ipv4Addr),
}

/// Whether the network shares an address with loopback.
pub(super) fn touches_loopback(net: &IpNet) -> bool {
    overlap(net, &IpNet::V4(LOOPBACK_V4)) || overlap(net, &IpNet::V6(LOOPBACK_V6))
}

/// Whether the network shares an address with one that has internal names.
pub(super) fn touches_internal(net: &IpNet) -> bool {
    INTERNAL.iter().any(|internal| overlap(net, internal))
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}
