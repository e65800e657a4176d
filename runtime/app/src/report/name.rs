//! Names of files and folders, and other foreign text, as the program prints them.
//!
//! A name may hold anything but `/` and a zero byte: escapes that a terminal obeys, and marks that turn the direction of
//! writing and so show another name than there is.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// Foreign text for people: each character that a terminal would obey in place of showing it becomes `?`, a line's end
/// included.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, |_| false)
}

/// The same for text of several lines, such as an error's.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| c == '\n')
}

fn shown(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let bad = |c: char| is_obeyed(c) && !kept(c);
    match text.contains(bad) {
        true => text.chars().map(|c| if bad(c) { '?' } else { c }).collect::<String>().into(),
        false => text.into(),
    }
}

/// Controls (C0 and C1), line and paragraph separators, and what the Unicode Bidirectional Algorithm (UAX 9) calls
/// explicit formatting.
fn is_obeyed(c: char) -> bool {
    let directions = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c);
    c.is_control() || directions
}

/// A path as a word of a command that a person may copy into a shell (POSIX quotes; `$'...'` where it holds what cannot
/// be shown, which bash, zsh and busybox know).
pub fn shell_word(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(b) || *b >= 0x80;
    match path.to_str() {
        Some(text) if !text.contains(is_obeyed) => {
            let dash = if text.starts_with('-') { "./" } else { "" };
            match !text.is_empty() && bytes.iter().all(plain) {
                true => format!("{dash}{text}"),
                false => format!("'{dash}{}'", text.replace('\'', r"'\''")),
            }
        }
        _ => {
            let mut word = String::from(if bytes.starts_with(b"-") { "$'./" } else { "$'" });
            for b in bytes {
                let _ = match b {
                    b'\'' | b'\\' => write!(word, "\\{}", char::from(*b)),
                    0x20..0x7f => write!(word, "{}", char::from(*b)),
                    // Three octal digits: no digit behind them is taken for one of them.
                    _ => write!(word, "\\{b:03o}"),
                };
            }
            word + "'"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn no_name_moves_the_cursor() {
        assert_eq!(printable("行人 ü'\"$.jpg"), "行人 ü'\"$.jpg");
        assert_eq!(printable("a\x1b[2J\nb\u{9b}K\u{7f}"), "a?[2J?b?K?");
        assert_eq!(printable("photo\u{202e}gpj.exe"), "photo?gpj.exe");
        assert_eq!(printable_lines("no\x1b[A\nKnown: b"), "no?[A\nKnown: b");
    }

    #[test]
    fn a_shell_reads_the_name_that_there_is() {
        let names: [&[u8]; 11] = [
            b"plain/a-b_1.jpg",
            b"two words",
            b"it's",
            b"$HOME `x` \"q\" \\",
            b"",
            b"*?[a]",
            b"a\nb\x1b[2J7",
            b"\xff1'\\",
            "ü/行".as_bytes(),
            b"~",
            b"#!&;|<>()",
        ];
        for name in names {
            let word = shell_word(Path::new(OsStr::from_bytes(name)));
            assert!(!word.contains(char::is_control), "{word:?}");
            let script = format!("printf %s {word}");
            let said = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(said.stdout, name, "{word}");
        }
        assert_eq!(shell_word(Path::new("a/b.jpg")), "a/b.jpg");
        assert_eq!(shell_word(Path::new("-rf")), "./-rf");
    }
}
