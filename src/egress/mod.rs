//! The only way out: every HTTP request that this server starts goes through
//! [`Egress`]. It must not know what it delivers, nor the store.
//!
//! # Motivation
//!
//! Whoever may register a backend tells this server which address to call. That
//! is server-side request forgery by design: the caller picks the target, and
//! the server stands inside the network. Without defence a member of a project
//! could POST to `127.0.0.1`, to the database's host, to another customer's
//! service, or to the metadata service of the cloud, which hands out
//! credentials. The second attack is on the server itself: a backend that never
//! finishes answering, or answers without end, wants to hold a slot, a
//! connection and memory for ever.
//!
//! # Theory of operation
//!
//! The address, in layers, each of which assumes that the one before failed:
//!
//! 1. **Spelling.** [`AddressPolicy::parse_url`] parses the text once, with the
//!    parser the client itself uses, so that there are no two opinions about
//!    the host. `0x7f.1`, `2130706433`, `127。0。0。1` and `%31%32%37.0.0.1` come
//!    out as the address 127.0.0.1 and are judged as such. Only [`CallbackUrl`]s
//!    can be sent to, and nothing else makes one.
//! 2. **Names.** Names that only mean something inside a network are refused
//!    before anything is asked of the DNS.
//! 3. **Registration.** [`Egress::check`] resolves the name and refuses it while
//!    a person is there to read the sentence. This is courtesy, not protection:
//!    the name's owner can change the answer a second later (DNS rebinding).
//! 4. **Connection.** The client's resolver gives out checked addresses only, and
//!    the connection goes to one of those: between check and use there is no
//!    second look-up. One bad address refuses the whole name, because a mix of
//!    public and private answers has no honest reading. The HTTP client does not
//!    ask a resolver about IP literals, so [`Egress::send`] checks them itself,
//!    each time.
//! 5. **Detours.** No redirect is followed, no proxy variable is read.
//!
//! An address is judged by [`AddressPolicy::permits`]: IPv4 by a list of what
//! is refused, IPv6 by the one block that is global unicast less a list. IPv6
//! forms that carry an IPv4 address are refused outright. For NAT64 and the
//! like the embedded address could be judged instead, but a translator's idea
//! of it is not ours to know. The operator opens networks by
//! `callbacks.allowed_networks`; see [`AddressPolicy::new`] for what an
//! exception means. A translator with a prefix of its own inside a public
//! network cannot be recognised; whoever runs one filters there.
//!
//! The answer: one deadline lies around name look-up, connection, head and body
//! together, so that a byte now and then buys no time. The body is read up to a
//! cap, then the connection is dropped and the status counts; an endless 200 has
//! said what we wanted to know, a stalled 200 has not and is a time-out. A head
//! above the same cap is refused (the library stops at 100 fields and about
//! 400 KiB). Nothing is decompressed, so no small answer becomes a large one.
//! HTTP/1.1 only: on a multiplexed connection "drop it" would hit bystanders.
//!
//! What remains: a name server that never answers holds a thread of the
//! blocking pool for as long as the system's resolver waits, past our deadline.
//! The dispatcher's limits per application bound how many.

mod address;
mod callback_url;
mod client;
mod failure;
mod outcome;
mod policy;
mod resolver;
mod retry_after;
mod signature;
#[cfg(test)]
mod tests;

pub use callback_url::CallbackUrl;
pub use client::{Egress, EgressConfig, install_tls_provider};
pub use outcome::{FailureKind, Outgoing, Sending, Sent};
pub use policy::{AddressPolicy, Refusal};
pub use retry_after::retry_after;
pub use signature::{SigningSecret, sign};
