//! The bytes of large transfers: xorshift64 from 1, little endian, so that either side knows each byte.

use std::io::{self, Write};

const BLOCK: usize = 64 * 1024;

/// The sequence, and how far it has come.
pub(crate) struct Sequence {
    state: u64,
    /// The last word and how many of its bytes have been used.
    word: [u8; 8],
    used: usize,
    position: u64,
    first_wrong: Option<u64>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self { state: 1, word: [0; 8], used: 8, position: 0, first_wrong: None }
    }
}

impl Sequence {
    /// Writes this many bytes of the sequence.
    pub(crate) fn write(mut self, sink: &mut dyn Write, mut bytes: u64) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        while bytes > 0 {
            for word in block.chunks_exact_mut(8) {
                word.copy_from_slice(&self.next_word());
            }
            let length = usize::try_from(bytes).unwrap_or(BLOCK).min(BLOCK);
            sink.write_all(&block[..length])?;
            bytes -= length as u64;
        }
        Ok(())
    }

    /// Compares the next bytes with the sequence.
    pub(crate) fn verify(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.used == 8 {
                self.word = self.next_word();
                self.used = 0;
            }
            if *byte != self.word[self.used] && self.first_wrong.is_none() {
                self.first_wrong = Some(self.position);
            }
            self.used += 1;
            self.position += 1;
        }
    }

    pub(crate) fn first_wrong(&self) -> Option<u64> {
        self.first_wrong
    }

    fn next_word(&mut self) -> [u8; 8] {
        let mut x = self.state;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.state = x;
        x.to_le_bytes()
    }
}
