//! Public model files that carry no metadata, recognised by their content.

use super::{Labels, ModelSpec};
use crate::heads;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Which family of files a checksum belongs to.
enum Family {
    Yolox,
    FastestDet,
    YuNet,
}

/// SHA-256 of the file, its common name, its family.
const KNOWN: &[(&str, &str, Family)] = &[
    ("695e750a5d5754bb5a8d5325643b59282191a7e7a564e435a415fd3c578eab14", "YOLOX-Nano (416)", Family::Yolox),
    (
        "314c8a5120f1c451398bc7f8d5b799ba2ffd4952957ce8febfef7706c61b685c",
        "YOLOX-Nano fp16 (416)",
        Family::Yolox,
    ),
    (
        "f2d03622fdc1e8fcffa6917b9668c528ff700cedd0b1cb256c6b5278eb7d7673",
        "YOLOX-Nano int8 (416)",
        Family::Yolox,
    ),
    (
        "d5db4551e837de8b3e67a2bce3e7be7218ef16ad3b67aea3e730effcf0d2644d",
        "YOLOX-Nano int8 symmetric (416)",
        Family::Yolox,
    ),
    (
        "31cb14c017fce347cb4c846ec62fdf00d76bb3beecdf4be21e7116ac67feb880",
        "FastestDet (352)",
        Family::FastestDet,
    ),
    ("81dbde155e982455488235acb8ec2dec5d647edf7cf7080d33e4abb69b93a0d2", "YuNet (320)", Family::YuNet),
    ("25a606a145a5b6d7271ae138fbd00eba91dad8b83222ae3f2c7ecd0f4a7b0e31", "YuNet (640)", Family::YuNet),
    ("104ee26c71d5c270ce79a6b3dced91c91013260d29a6bf18f9296c5b8c4c2b12", "YuNet (any size)", Family::YuNet),
];

/// The description of a known public model file, by the SHA-256 of its bytes in hexadecimal.
pub fn known_model(sha256: &str) -> Option<ModelSpec> {
    let (_, name, family) = KNOWN.iter().find(|(sum, _, _)| sum.eq_ignore_ascii_case(sha256))?;
    let (head, labels) = match family {
        Family::Yolox => ("yolox", Labels::coco80()),
        Family::FastestDet => ("fastestdet", Labels::coco80()),
        Family::YuNet => ("yunet", Labels::new(vec!["face".into()]).ok()?),
    };
    let spec = ModelSpec {
        head: Some(head.into()),
        labels: Some(labels),
        source: Some(format!("the known file {name}")),
        ..ModelSpec::default()
    };
    Some(spec.or(heads::defaults(head)?))
}

/// The SHA-256 of a model file's bytes, in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColorOrder;
    use saltica_tensor::ResizeMode;

    #[test]
    fn the_sum_is_the_standard_one() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn known_files_have_whole_descriptions() {
        for (sum, name, _) in KNOWN {
            assert!(sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
            let s = known_model(sum).unwrap();
            assert!(
                s.head.is_some() && s.labels.is_some() && s.color.is_some() && s.resize.is_some(),
                "{name}"
            );
        }
        let s = known_model(&KNOWN[0].0.to_uppercase()).unwrap();
        assert_eq!(
            (s.color, s.scale, s.resize),
            (Some(ColorOrder::Bgr), Some(1.0), Some(ResizeMode::LetterboxTopLeft))
        );
        assert_eq!(known_model("00"), None);
    }
}
