//! HTTP/2 by hand: the frames of a client.

/// Types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags of frames.
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;
/// The window that a stream and a connection have at their begin.
pub(crate) const WINDOW: usize = 65_535;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self {
            kind,
            flags,
            stream,
            payload: payload.to_vec(),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The frame that `bytes` begin with, once it is whole, and its length.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (head, rest) = bytes.split_at_checked(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = rest.get(..length)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((Self::new(head[3], head[4], stream, payload), 9 + length))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number that a reset, a farewell or a window's update ends with or is.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A list of headers that needs no state: none of it is put into a table.
pub(crate) fn headers(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut list = Vec::new();
    let own = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "octopus"),
        (":path", path),
    ];
    for (name, value) in own.iter().chain(more) {
        list.push(0);
        for text in [name, value] {
            match text.len() {
                length @ 0..127 => list.push(u8::try_from(length).unwrap()),
                length => {
                    list.push(127);
                    let mut rest = length - 127;
                    while rest >= 128 {
                        list.push(u8::try_from(rest % 128).unwrap() | 128);
                        rest /= 128;
                    }
                    list.push(u8::try_from(rest).unwrap());
                }
            }
            list.extend(text.as_bytes());
        }
    }
    list
}

/// The status in a list of headers that begins with one of the static table, or with a literal of three bytes.
pub(crate) fn status(list: &[u8]) -> u16 {
    match list {
        // A change of the table's size may come first.
        [size, rest @ ..] if size & 0xe0 == 0x20 => status(rest),
        [index @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(index - 0x88)],
        // Three digits in Huffman's code are two or three bytes; that of 4, 3, 1 and 5 is checked.
        [0x48 | 0x08, 0x82 | 0x83, ..] => literal(list),
        other => panic!("{other:02x?}"),
    }
}

fn literal(list: &[u8]) -> u16 {
    let length = usize::from(list[1] & 0x7f);
    let mut bits = list[2..2 + length]
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let mut status = 0;
    for _ in 0..3 {
        let mut code = 0;
        for _ in 0..5 {
            code = code << 1 | bits.next().unwrap();
        }
        // 0, 1 and 2 have five bits, 3 to 9 six that start with 011.
        let digit = if code < 3 {
            code
        } else {
            (code << 1 | bits.next().unwrap()) - 0x19 + 3
        };
        status = status * 10 + u16::from(digit);
    }
    status
}
