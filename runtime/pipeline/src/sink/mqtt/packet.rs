//! The packets of a client that only publishes, in MQTT 3.1.1 and 5.0 (OASIS standards of 2014 and 2019; sections in
//! brackets are the same in both unless said otherwise).

use crate::{Error, ErrorKind, Result};

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// 3.1.1, which every broker speaks.
    V311,
    /// 5.0.
    V5,
}

/// The first packet [3.1].
pub(super) struct Connect<'a> {
    pub(super) version: Version,
    pub(super) client: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a str>,
    pub(super) keep_alive: u16,
    /// Topic and message that the broker publishes, retained, when the connection is lost.
    pub(super) will: Option<(&'a str, &'a [u8])>,
}

impl Connect<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut body = Vec::with_capacity(128);
        text(&mut body, b"MQTT")?;
        body.push(if self.version == Version::V5 { 5 } else { 4 });
        // A clean session: nothing of an earlier connection is wanted.
        let mut flags = 0b10;
        if self.will.is_some() {
            flags |= 0b10_0100;
        }
        flags |= u8::from(self.user.is_some()) << 7 | u8::from(self.password.is_some()) << 6;
        body.push(flags);
        body.extend(self.keep_alive.to_be_bytes());
        let no_properties = |body: &mut Vec<u8>| {
            if self.version == Version::V5 {
                body.push(0);
            }
        };
        no_properties(&mut body);
        text(&mut body, self.client.as_bytes())?;
        if let Some((topic, message)) = self.will {
            no_properties(&mut body);
            text(&mut body, topic.as_bytes())?;
            text(&mut body, message)?;
        }
        for part in [self.user, self.password].into_iter().flatten() {
            text(&mut body, part.as_bytes())?;
        }
        head(out, 0x10, body.len())?;
        out.extend(body);
        Ok(())
    }
}

/// A message [3.3]; with an id it asks to be confirmed (QoS 1).
pub(super) fn publish(
    out: &mut Vec<u8>,
    version: Version,
    topic: &str,
    message: &[u8],
    retain: bool,
    id: Option<u16>,
) -> Result<()> {
    let properties = usize::from(version == Version::V5);
    let length = 2 + topic.len() + 2 * usize::from(id.is_some()) + properties + message.len();
    head(out, 0x30 | u8::from(id.is_some()) << 1 | u8::from(retain), length)?;
    text(out, topic.as_bytes())?;
    if let Some(id) = id {
        out.extend(id.to_be_bytes());
    }
    out.extend(std::iter::repeat_n(0, properties));
    out.extend(message);
    Ok(())
}

/// Marks a message as sent once more [3.3.1.1].
pub(super) fn mark_again(publish: &mut [u8]) {
    if let Some(first) = publish.first_mut() {
        *first |= 0b1000;
    }
}

/// [3.12]
pub(super) fn ping(out: &mut Vec<u8>) {
    out.extend([0xc0, 0]);
}

/// [3.14]
pub(super) fn disconnect(out: &mut Vec<u8>) {
    out.extend([0xe0, 0]);
}

fn text(out: &mut Vec<u8>, text: &[u8]) -> Result<()> {
    let length = u16::try_from(text.len()).map_err(|_| {
        Error::new(ErrorKind::Value, format!("a text of {} bytes, MQTT allows 65535", text.len()))
    })?;
    out.extend(length.to_be_bytes());
    out.extend(text);
    Ok(())
}

/// First byte and length [2.2.3 in 3.1.1, 2.1.4 in 5.0].
fn head(out: &mut Vec<u8>, first: u8, length: usize) -> Result<()> {
    if length > 268_435_455 {
        return Err(Error::new(
            ErrorKind::Value,
            format!("a message of {length} bytes, MQTT allows 256 MiB"),
        ));
    }
    out.push(first);
    let mut rest = length;
    loop {
        let more = rest >= 128;
        out.push((rest % 128) as u8 | u8::from(more) << 7);
        rest /= 128;
        if !more {
            return Ok(());
        }
    }
}

/// What a broker says to such a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    /// The connection stands [3.2].
    Connected,
    /// It does not, or not any more [3.2, 3.14 in 5.0].
    Refused {
        /// The reason in words.
        why: String,
        /// Whether the same attempt would fail again.
        permanent: bool,
    },
    /// The message with this id is the broker's now [3.4].
    Published(u16),
    /// [3.13]
    Pong,
}

/// The largest packet read: brokers send such a client a few bytes, 5.0's properties included.
const LARGEST: usize = 64 << 10;

/// The packet at the start of `bytes` with its length; None if it is not all there.
///
/// # Errors
/// [`ErrorKind::Gone`] for what a broker does not send to a client that never subscribed.
pub(super) fn read(bytes: &[u8], version: Version) -> Result<Option<(Ack, usize)>> {
    let bad = |what: &str| Error::new(ErrorKind::Gone, format!("the other side speaks no MQTT: {what}"));
    // None of the packets expected has flags.
    if bytes.first().is_some_and(|b| b & 0x0f != 0) {
        return Err(bad(&format!("its answer begins with byte {:#04x}", bytes[0])));
    }
    let (mut length, mut at) = (0usize, 1);
    loop {
        let Some(b) = bytes.get(at) else {
            return if at > 4 { Err(bad("a length that does not end")) } else { Ok(None) };
        };
        length |= usize::from(b & 127) << (7 * (at - 1));
        at += 1;
        if b & 128 == 0 {
            break;
        }
        if at > 4 {
            return Err(bad("a length that does not end"));
        }
    }
    if length > LARGEST {
        return Err(bad(&format!("a packet of {length} bytes")));
    }
    let Some(body) = bytes.get(at..at + length) else { return Ok(None) };
    let ack = match (bytes[0] >> 4, body) {
        (2, [_, 0, ..]) => Ack::Connected,
        (2, [_, code, ..]) => refused(*code, version),
        (4, [hi, lo, ..]) => Ack::Published(u16::from_be_bytes([*hi, *lo])),
        (13, _) => Ack::Pong,
        (14, body) => {
            let code = body.first().copied().unwrap_or(0);
            Ack::Refused { why: reason(code).to_owned(), permanent: false }
        }
        (kind, _) => return Err(bad(&format!("packet of type {kind} with {length} bytes"))),
    };
    Ok(Some((ack, at + length)))
}

fn refused(code: u8, version: Version) -> Ack {
    let why = match (version, code) {
        // [3.2.2.3 in 3.1.1]
        (Version::V311, 1) => "it does not speak this version of MQTT",
        (Version::V311, 2) => "it does not allow this client id",
        (Version::V311, 3) => "it is not available",
        (Version::V311, 4) => "wrong user or password",
        (Version::V311, 5) => "not authorised",
        // A 3.1.1 broker that is asked for 5.0 says so in its own way.
        (Version::V5, 1) => "it does not speak this version of MQTT",
        (_, code) => reason(code),
    };
    // Another user, password or version has to be given first. Everything else may change by itself.
    let permanent = match version {
        Version::V311 => matches!(code, 1 | 2),
        Version::V5 => matches!(code, 1 | 0x84 | 0x85 | 0x8c),
    };
    Ack::Refused { why: format!("{why} (code {code})"), permanent }
}

/// Reason codes of 5.0 [2.4] that a publishing client may meet.
const fn reason(code: u8) -> &'static str {
    match code {
        0 => "it closed it",
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x84 => "it does not speak this version of MQTT",
        0x85 => "it does not allow this client id",
        0x86 => "wrong user or password",
        0x87 => "not authorised",
        0x88 => "it is not available",
        0x89 => "it is busy",
        0x8a => "this client is banned",
        0x8b => "it shuts down",
        0x8c => "it wants another way to log in",
        0x8d => "it heard nothing for too long",
        0x8e => "another client took this client id",
        0x90 => "it does not allow this topic",
        0x95 => "the packet was too large",
        0x96 => "too many messages",
        0x97 => "quota exceeded",
        0x9a => "it does not keep messages (retain)",
        0x9b => "it does not confirm messages (QoS)",
        0x9c | 0x9d => "it refers to another server",
        0x9f => "too many connections",
        _ => "a reason it does not name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_those_of_the_standard() {
        // Worked out by hand from figures 3.2 to 3.9 of 3.1.1 and section 3.1 of 5.0.
        let mut out = Vec::new();
        let connect = Connect {
            version: Version::V311,
            client: "ab",
            user: Some("u"),
            password: Some("pw"),
            keep_alive: 10,
            will: Some(("t", b"off")),
        };
        connect.write(&mut out).unwrap();
        let want = b"\x10\x1f\x00\x04MQTT\x04\xe6\x00\x0a\x00\x02ab\x00\x01t\x00\x03off\x00\x01u\x00\x02pw";
        assert_eq!(out[..2], [0x10, (want.len() - 2) as u8]);
        assert_eq!(out[2..], want[2..]);
        out.clear();
        Connect { version: Version::V5, user: None, password: None, will: None, ..connect }
            .write(&mut out)
            .unwrap();
        assert_eq!(out, b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x02ab");
        out.clear();
        publish(&mut out, Version::V311, "a/b", b"hi", false, None).unwrap();
        assert_eq!(out, b"\x30\x07\x00\x03a/bhi");
        out.clear();
        publish(&mut out, Version::V5, "a/b", b"hi", true, Some(258)).unwrap();
        assert_eq!(out, b"\x33\x0a\x00\x03a/b\x01\x02\x00hi");
        mark_again(&mut out);
        assert_eq!(out[0], 0x3b);
    }

    #[test]
    fn lengths_take_one_to_four_bytes() {
        // Table 2.4 of 3.1.1.
        for (length, want) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 1]),
            (2_097_151, &[0xff, 0xff, 0x7f]),
            (268_435_455, &[0xff, 0xff, 0xff, 0x7f]),
        ] {
            let mut out = Vec::new();
            head(&mut out, 0x30, length).unwrap();
            assert_eq!(out[1..], *want);
        }
        assert!(head(&mut Vec::new(), 0x30, 268_435_456).is_err());
        assert!(text(&mut Vec::new(), &vec![b'a'; 65536]).is_err());
    }

    #[test]
    fn answers_are_understood() {
        let one = |bytes: &[u8], v| read(bytes, v).unwrap().unwrap();
        assert_eq!(one(&[0x20, 2, 0, 0], Version::V311), (Ack::Connected, 4));
        assert_eq!(one(&[0x20, 3, 0, 0, 0], Version::V5), (Ack::Connected, 5));
        assert_eq!(one(&[0x40, 2, 1, 2, 9], Version::V311), (Ack::Published(258), 4));
        assert_eq!(one(&[0x40, 4, 1, 2, 0x10, 0], Version::V5), (Ack::Published(258), 6));
        assert_eq!(one(&[0xd0, 0], Version::V5), (Ack::Pong, 2));
        for (bytes, v, says, forever) in [
            (&[0x20, 2, 0, 5][..], Version::V311, "not authorised", false),
            (&[0x20, 2, 0, 1], Version::V311, "version", true),
            (&[0x20, 3, 0, 0x86, 0], Version::V5, "wrong user or password", false),
            (&[0xe0, 1, 0x8b], Version::V5, "shuts down", false),
        ] {
            let (ack, _) = one(bytes, v);
            let Ack::Refused { why, permanent } = ack else { panic!("{ack:?}") };
            assert!(why.contains(says) && permanent == forever, "{why}");
        }
        for part in [&[][..], &[0x20], &[0x20, 2], &[0x20, 2, 0], &[0x20, 0x80]] {
            assert_eq!(read(part, Version::V311).unwrap(), None);
        }
        for bad in
            [&b"HTTP/1.1 400"[..], &[0x20, 0xff, 0xff, 0xff, 0xff, 1], &[0x20, 0xff, 0xff, 0x7f], &[0x20, 0]]
        {
            assert!(read(bad, Version::V5).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for v in [Version::V311, Version::V5] {
                if let Ok(Some((_, n))) = read(&bytes, v) {
                    prop_assert!(n >= 2 && n <= bytes.len());
                }
            }
        }
    }
}
