//! Query strings, and forms, decoded strictly: a malformed one is refused, not guessed at.

pub(crate) struct Query {
    pub(crate) pairs: Vec<(String, String)>,
}

impl Query {
    /// `None` if an escape is cut short, is not hexadecimal, or the result is not UTF-8.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        Some(Self { pairs: pairs.collect::<Option<_>>()? })
    }

    /// The last value of that name, as API Gateway's single-value map has it.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(candidate, _)| candidate == name).map(|(_, value)| value.as_str())
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn escapes_are_decoded_and_malformed_ones_refused() {
        let query = Query::parse("a=1&b=x%20y+z&a=%C3%A4&flag").unwrap();
        assert_eq!((query.get("a"), query.get("b"), query.get("flag")), (Some("ä"), Some("x y z"), Some("")));
        for malformed in ["a=%", "a=%2", "a=%zz", "a=%ff", "%=1"] {
            assert!(Query::parse(malformed).is_none(), "{malformed}");
        }
    }
}
