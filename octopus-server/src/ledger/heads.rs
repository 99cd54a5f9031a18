//! When the head of a request is coming: its first byte is there, and its last is not [D-32].

use crate::listener::Protocol;

/// What a client sends before its first frame of HTTP/2.
const PREFACE: usize = 24;
/// The bytes before a frame's payload.
const FRAME_HEAD: usize = 9;
/// Types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The flag of a frame that ends its list of headers.
const END_HEADERS: u8 = 4;

/// Follows what a client sends.
#[derive(Debug)]
pub(super) struct Heads {
    /// How many have begun to come.
    begun: u64,
    is_coming: bool,
    /// Of HTTP/2; in HTTP/1 only the HTTP library knows where a head ends.
    frames: Option<Frames>,
}

/// Where in its frames a client of HTTP/2 is.
///
/// Whatever is not a request's body counts as a head: a list of headers with its continuations, and since it costs
/// nothing more, any other frame that came in part, and the preface.
#[derive(Debug, Default)]
struct Frames {
    preface: usize,
    head: [u8; FRAME_HEAD],
    head_bytes: usize,
    payload_left: usize,
    /// A list of headers is not at its end.
    is_list_open: bool,
}

impl Heads {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self {
            begun: 0,
            is_coming: false,
            frames: match protocol {
                Protocol::Http1 => None,
                Protocol::Http2 => Some(Frames::default()),
            },
        }
    }

    /// The number of the head that is coming.
    pub(super) fn coming(&self) -> Option<u64> {
        self.is_coming.then_some(self.begun)
    }

    /// These bytes came; `is_idle` where no request is in hand.
    pub(super) fn received(&mut self, mut bytes: &[u8], is_idle: bool) {
        let Some(mut frames) = self.frames.take() else {
            // Behind a request in hand they may be its body's.
            if is_idle && !bytes.is_empty() {
                self.begin();
            }
            return;
        };
        while !bytes.is_empty() {
            if frames.is_between() {
                self.begin();
            }
            bytes = &bytes[frames.take(bytes)..];
            self.is_coming = frames.is_head_coming();
        }
        self.frames = Some(frames);
    }

    /// The HTTP library has a head whole.
    pub(super) fn ended(&mut self) {
        // In HTTP/2 the next one may be coming already, and the frames tell.
        if self.frames.is_none() {
            self.is_coming = false;
        }
    }

    const fn begin(&mut self) {
        if !self.is_coming {
            self.is_coming = true;
            self.begun += 1;
        }
    }
}

impl Frames {
    /// The next byte is the first of a frame, or of the preface.
    const fn is_between(&self) -> bool {
        let is_preface_over = self.preface == 0 || self.preface == PREFACE;
        is_preface_over && self.head_bytes == 0
    }

    /// Takes bytes of the preface, of a frame's head, or of a payload; returns how many, at least one.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if self.preface < PREFACE {
            let count = bytes.len().min(PREFACE - self.preface);
            self.preface += count;
            return count;
        }
        if self.head_bytes < FRAME_HEAD {
            let count = bytes.len().min(FRAME_HEAD - self.head_bytes);
            self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(&bytes[..count]);
            self.head_bytes += count;
            if self.head_bytes == FRAME_HEAD {
                self.enter();
            }
            return count;
        }
        let count = bytes.len().min(self.payload_left);
        self.payload_left -= count;
        if self.payload_left == 0 {
            self.head_bytes = 0;
        }
        count
    }

    /// A frame's head is whole.
    fn enter(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        self.payload_left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if matches!(kind, HEADERS | CONTINUATION) {
            self.is_list_open = flags & END_HEADERS == 0;
        }
        if self.payload_left == 0 {
            self.head_bytes = 0;
        }
    }

    const fn is_head_coming(&self) -> bool {
        if self.preface < PREFACE || self.is_list_open {
            return true;
        }
        match self.head_bytes {
            0 => false,
            FRAME_HEAD => self.head[3] != DATA,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        bytes.resize(FRAME_HEAD + usize::from(length), b'x');
        bytes
    }

    /// [D-32] a head of HTTP/1 comes from its first byte on until the library has it, and not behind a request in hand.
    #[test]
    fn heads_of_http_1() {
        let mut heads = Heads::new(Protocol::Http1);
        heads.received(b"", true);
        assert_eq!(heads.coming(), None);
        for number in 1..3 {
            heads.received(b"GET", true);
            heads.received(b" / HTTP/1.1", true);
            assert_eq!(heads.coming(), Some(number));
            heads.ended();
            assert_eq!(heads.coming(), None);
            heads.received(b"body", false);
            assert_eq!(heads.coming(), None);
        }
    }

    /// [D-32] however the bytes come, a head of HTTP/2 has one number from its first byte to its last.
    #[test]
    fn heads_of_http_2_in_pieces_of_any_size() {
        let script = [
            (GREETING.to_vec(), 1),
            (frame(4, 0, 6), 2),
            // A list of headers with two continuations is one head.
            (
                [
                    frame(HEADERS, 1, 20),
                    frame(CONTINUATION, 0, 0),
                    frame(CONTINUATION, END_HEADERS, 3),
                ]
                .concat(),
                3,
            ),
            (frame(6, 0, 8), 4),
            (frame(HEADERS, END_HEADERS, 0), 5),
        ];
        for step in [1, 2, 8, 9, 10, 100] {
            let mut heads = Heads::new(Protocol::Http2);
            for (bytes, number) in &script {
                let mut taken = 0;
                for piece in bytes.chunks(step) {
                    heads.received(piece, false);
                    taken += piece.len();
                    let coming = (taken < bytes.len()).then_some(*number);
                    assert_eq!(heads.coming(), coming, "{step} {taken} of {number}");
                }
            }
            // The library's word changes nothing.
            heads.received(&[0], true);
            heads.ended();
            assert_eq!(heads.coming(), Some(6));
        }
    }

    /// [D-32] a body's frame may take its time, once it is known to be one.
    #[test]
    fn a_body_of_http_2_is_no_head() {
        let mut heads = Heads::new(Protocol::Http2);
        heads.received(GREETING, true);
        let body = frame(DATA, 0, 200);
        let (head, payload) = body.split_at(FRAME_HEAD);
        for byte in &head[..FRAME_HEAD - 1] {
            heads.received(&[*byte], true);
            assert_eq!(heads.coming(), Some(2));
        }
        heads.received(&head[FRAME_HEAD - 1..], true);
        for piece in payload.chunks(3) {
            assert_eq!(heads.coming(), None);
            heads.received(piece, true);
        }
        assert_eq!(heads.coming(), None);
    }

    /// Several heads in one piece are several: what is left of the last is new.
    #[test]
    fn the_last_of_many_heads_has_a_number_of_its_own() {
        let mut heads = Heads::new(Protocol::Http2);
        let many = [GREETING, &frame(6, 0, 8), &frame(6, 0, 8), &frame(6, 0, 8)[..5]].concat();
        heads.received(&many, true);
        assert_eq!(heads.coming(), Some(4));
        heads.received(&frame(6, 0, 8)[5..], true);
        assert_eq!(heads.coming(), None);
    }
}
