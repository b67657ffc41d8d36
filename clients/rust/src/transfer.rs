//! The bytes of what messages carry: read, hashed, put and fetched.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use futures_util::stream;
use pigeonhole_core::{
    Carry, FileDigest, FileOpener, Put, PutEnd, SealedFile, SealedPut, Source, Upload, opener_of, sealed_file_bytes,
};
use reqwest::header::{CONTENT_LENGTH, RANGE};
use reqwest::{Body, StatusCode};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use wire::limits::MEDIA_WHOLE_BYTES_MAX;
use wire::{Digest, Media};

use crate::Error;
use crate::attachment::{Attachment, check_length};
use crate::private;

/// The size of one read or write.
const CHUNK_BYTES: usize = 64 * 1024;
/// The longest time in which no byte may move.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Creates the HTTP client for S3. Creation fails on a system without certificates. A read timeout would include the
/// time in which a request is sent, so [`put`] has its own timeout.
pub(crate) fn http() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().connect_timeout(CONNECT_WAIT).build()
}

/// Reads all of the file, for what is announced of it.
///
/// `is_sealed`: the message may have to leave encrypted.
pub(crate) async fn announce(attachment: Attachment, is_sealed: bool) -> Result<Upload, Error> {
    let read = spawn_blocking(move || {
        let Attachment { path, kind, mime, about, .. } = attachment;
        let unreadable = |error: io::Error| Error::File(format!("{}: {error}", path.display()));
        let mut file = File::open(&path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        check_length(&path, bytes)?;
        let mut hash = FileDigest::new(bytes);
        let (mut chunk, mut read) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let count = file.read(&mut chunk).map_err(unreadable)?;
            if count == 0 {
                break;
            }
            hash.update(chunk.get(..count).unwrap_or_default());
            read += count as u64;
        }
        if read != bytes {
            return Err(Error::File(format!("{} changes while it is read", path.display())));
        }
        let (sha256, parts) = hash.end_in_parts();
        let digest = |sha256| Digest::parse(&BASE64.encode(sha256)).map_err(|error| Error::File(error.to_string()));
        let parts = parts.iter().map(|part| digest(part)).collect::<Result<_, _>>()?;
        let sealed = is_sealed.then(|| SealedFile::of(&mut file, bytes)).transpose().map_err(unreadable)?.map(Box::new);
        // Where it is, wherever the app is started from the next time.
        let source = Source::File(std::path::absolute(&path).unwrap_or(path));
        Ok(Upload { source, kind, mime, bytes, sha256: digest(&sha256)?, parts, about, media_id: None, sealed })
    });
    read.await.map_err(|error| Error::File(error.to_string()))?
}

/// Reads these bytes of the file and uploads them. Calls `progress` with the number of bytes sent.
pub(crate) async fn put(http: reqwest::Client, put: Put, progress: impl Fn(u64) + Send + Sync + 'static) -> PutEnd {
    let Put { path, offset, bytes, url, headers, sealed } = put;
    let read = spawn_blocking(move || read_range(&path, offset, bytes, sealed.as_ref())).await;
    let chunks = match read {
        Ok(Ok(chunks)) => chunks,
        Ok(Err(error)) if is_final(&error) => return PutEnd::Unreadable(error.to_string()),
        // No more files can be open, the disk is away, the device is locked: that passes.
        Ok(Err(_)) | Err(_) => return PutEnd::Lost,
    };
    let (sent_tx, sent_rx) = watch::channel(0);
    let progress = Arc::new(progress);
    let told = Arc::clone(&progress);
    let body = stream::iter(chunks.into_iter().map(move |chunk| {
        told(*sent_tx.borrow());
        sent_tx.send_modify(|sent| *sent += chunk.len() as u64);
        Ok::<_, io::Error>(chunk)
    }));
    let mut request = http.put(url).body(Body::wrap_stream(body));
    for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str())) {
        request = request.header(name, value);
    }
    // S3 takes no body whose length it does not know.
    tokio::select! {
        response = request.header(CONTENT_LENGTH, bytes).send() => match response {
            Ok(response) => {
                if response.status().is_success() {
                    progress(bytes);
                }
                PutEnd::Status(response.status().as_u16())
            }
            Err(_) => PutEnd::Lost,
        },
        () = silence(sent_rx) => PutEnd::Lost,
    }
}

/// Carries a file of the encryption. Returns its bytes, none after a PUT.
///
/// # Errors
/// The file was not carried, and may be later.
pub(crate) async fn carry(http: reqwest::Client, what: Carry) -> Result<Vec<u8>, Error> {
    let failed = |error: reqwest::Error| Error::File(error.to_string());
    match what {
        Carry::Put { url, headers, bytes } => {
            let put = headers.iter().fold(http.put(url), |put, (name, value)| put.header(name, value));
            let status = put.timeout(SILENCE_MAX).body(bytes).send().await.map_err(failed)?.status();
            let is_there = status.is_success() || status == StatusCode::PRECONDITION_FAILED;
            if is_there { Ok(Vec::new()) } else { Err(Error::File(format!("HTTP {status}"))) }
        }
        Carry::Get { url, bytes } => {
            let response =
                http.get(url).timeout(SILENCE_MAX).send().await.and_then(reqwest::Response::error_for_status);
            let mut response = response.map_err(failed)?;
            let mut come = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(failed)? {
                come.extend_from_slice(&chunk);
                if come.len() as u64 > bytes {
                    return Err(Error::File("more bytes than announced".to_owned()));
                }
            }
            Ok(come)
        }
    }
}

/// Returns whether a retry can't help: the file is gone or not what it was, or the request is impossible.
fn is_final(error: &io::Error) -> bool {
    use ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};

    matches!(error.kind(), NotFound | UnexpectedEof | InvalidInput | InvalidData)
}

/// Until nothing at all has gone out for too long.
async fn silence(mut sent_rx: watch::Receiver<u64>) {
    while let Ok(Ok(())) = timeout(SILENCE_MAX, sent_rx.changed()).await {}
    // All bytes are sent, or none moves: a response is due.
    sleep(SILENCE_MAX).await;
}

/// Reads the range in chunks. The range is at most one part, which fits into a phone's memory.
fn read_range(path: &Path, offset: u64, bytes: u64, sealed: Option<&SealedPut>) -> io::Result<Vec<Vec<u8>>> {
    if bytes > MEDIA_WHOLE_BYTES_MAX {
        let problem = "the server wants more at once than the protocol allows";
        return Err(io::Error::new(ErrorKind::InvalidInput, problem));
    }
    let mut file = File::open(path)?;
    if let Some(sealed) = sealed {
        let ciphertext = sealed.read(&mut file, offset, bytes)?;
        return Ok(ciphertext.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect());
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut left = usize::try_from(bytes).map_err(io::Error::other)?;
    let mut chunks = Vec::new();
    while left > 0 {
        let mut chunk = vec![0; left.min(CHUNK_BYTES)];
        file.read_exact(&mut chunk)?;
        left -= chunk.len();
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// A download in progress, in a file next to its destination.
pub(crate) struct Fetch {
    part: PathBuf,
    file: Option<File>,
    check: Option<Check>,
    done: u64,
    media: Media,
}

/// The check of a download, which opens what is encrypted.
enum Check {
    Clear(FileDigest),
    Sealed(Box<FileOpener>),
}

impl Check {
    fn new(media: &Media) -> Result<Self, Error> {
        if media.key.is_none() {
            return Ok(Self::Clear(FileDigest::new(media.bytes)));
        }
        Ok(Self::Sealed(Box::new(opener_of(media).map_err(|_| other_file())?)))
    }

    /// Takes the next bytes, and returns those of the file. An encrypted file comes in whole, verified segments.
    fn take(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        match self {
            Self::Clear(digest) => digest.update(&bytes),
            Self::Sealed(opener) => return opener.push(&bytes).map_err(|_| other_file()),
        }
        Ok(bytes)
    }

    fn end(self, media: &Media) -> Result<(), Error> {
        match self {
            Self::Clear(digest) => {
                let is_it = BASE64.encode(&digest.end()) == media.sha256.as_str();
                if is_it { Ok(()) } else { Err(other_file()) }
            }
            Self::Sealed(opener) => opener.end().map_err(|_| other_file()),
        }
    }
}

fn other_file() -> Error {
    Error::File("it is not what the message says".to_owned())
}

/// Returns how many bytes a download has.
fn stored_bytes(media: &Media) -> u64 {
    media.key.as_ref().and_then(|_| sealed_file_bytes(media.bytes)).unwrap_or(media.bytes)
}

/// How a try to fetch it ended.
pub(crate) enum Fetched {
    All,
    /// The URL is good no more: another one is needed.
    UrlEnded,
    /// The transfer broke. The received bytes are kept.
    Broken(String),
}

impl Fetch {
    pub(crate) fn new(media: &Media, to: &Path) -> Result<Self, Error> {
        let check = Some(Check::new(media)?);
        let mut part = to.as_os_str().to_owned();
        // Another download may write to the same place, and no file of the user's is in the way.
        part.push(format!(".{:016x}.part", fastrand::u64(..)));
        let part = PathBuf::from(part);
        let file = Some(private::create_new(&part).map_err(unwritable)?);
        Ok(Self { part, file, check, done: 0, media: media.clone() })
    }

    pub(crate) async fn try_once(&mut self, http: &reqwest::Client, url: &str) -> Result<Fetched, Error> {
        let broken = |error: reqwest::Error| Ok(Fetched::Broken(error.without_url().to_string()));
        let mut request = http.get(url);
        if self.done > 0 {
            request = request.header(RANGE, format!("bytes={}-", self.done));
        }
        let silent = |_| Ok(Fetched::Broken("nothing comes".to_owned()));
        let mut response = match timeout(SILENCE_MAX, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return broken(error),
            Err(elapsed) => return silent(elapsed),
        };
        match response.status() {
            // S3 returned the whole object instead of the requested range.
            StatusCode::OK if self.done > 0 => self.begin_again()?,
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => return Ok(Fetched::UrlEnded),
            status => return Ok(Fetched::Broken(format!("HTTP {}", status.as_u16()))),
        }
        loop {
            match timeout(SILENCE_MAX, response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.write(bytes.to_vec()).await?,
                Ok(Ok(None)) if self.done < stored_bytes(&self.media) => {
                    return Ok(Fetched::Broken("it ends early".to_owned()));
                }
                Ok(Ok(None)) => return Ok(Fetched::All),
                Ok(Err(error)) => return broken(error),
                Err(elapsed) => return silent(elapsed),
            }
        }
    }

    fn begin_again(&mut self) -> Result<(), Error> {
        self.file = Some(private::create(&self.part).map_err(unwritable)?);
        (self.check, self.done) = (Some(Check::new(&self.media)?), 0);
        Ok(())
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.done += bytes.len() as u64;
        if self.done > stored_bytes(&self.media) {
            return Err(Error::File("there is more of it than the message says".to_owned()));
        }
        let (Some(mut file), Some(mut check)) = (self.file.take(), self.check.take()) else {
            return Err(Error::File("it can't be written".to_owned()));
        };
        let written = spawn_blocking(move || {
            file.write_all(&check.take(bytes)?).map_err(unwritable)?;
            Ok::<_, Error>((file, check))
        });
        let (file, check) = written.await.map_err(|error| Error::File(error.to_string()))??;
        (self.file, self.check) = (Some(file), Some(check));
        Ok(())
    }

    /// Moves the file to its destination, if its size and digest match the message.
    pub(crate) fn end(mut self, to: &Path) -> Result<(), Error> {
        let (Some(file), Some(check)) = (self.file.take(), self.check.take()) else {
            return Err(Error::File("it can't be written".to_owned()));
        };
        check.end(&self.media)?;
        file.sync_all().and_then(|()| std::fs::rename(&self.part, to)).map_err(unwritable)
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // Moved away, if it is whole.
        let _ = std::fs::remove_file(&self.part);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn unwritable(error: io::Error) -> Error {
    Error::File(error.to_string())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server that replies to each connection with the next response, and returns the requests.
    async fn server(answers: Vec<impl AsRef<[u8]> + Send + 'static>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/object", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
                while !request.ends_with(b"\r\n\r\n") && !request.ends_with(b"bytes") {
                    let count = socket.read(&mut bytes).await.unwrap();
                    request.extend_from_slice(&bytes[..count]);
                }
                asked.push(String::from_utf8(request).unwrap().to_lowercase());
                socket.write_all(answer.as_ref()).await.unwrap();
                socket.shutdown().await.unwrap();
            }
            asked
        });
        (url, serving)
    }

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pigeonhole-transfer-{}-{name}", std::process::id()))
    }

    fn hello() -> Media {
        Media {
            media_id: wire::MediaId::parse("m_1").unwrap(),
            mime: wire::MimeType::parse("text/plain").unwrap(),
            bytes: 5,
            sha256: Digest::parse(&BASE64.encode(&Sha256::digest(b"hello"))).unwrap(),
            name: None,
            width: None,
            height: None,
            duration_ms: None,
            thumbhash: None,
            waveform: None,
            key: None,
            thumbnail: None,
        }
    }

    #[tokio::test]
    async fn a_part_of_a_file_is_put_with_its_length_and_its_headers() {
        let (url, serving) = server(vec!["HTTP/1.1 412 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"]).await;
        let path = place("put");
        std::fs::write(&path, b"some bytes and more").unwrap();
        let headers = vec![("If-None-Match".to_owned(), "*".to_owned())];
        let one = Put { path: path.clone(), offset: 5, bytes: 5, url: url.clone(), headers, sealed: None };
        assert_eq!(put(http().unwrap(), one.clone(), |_| {}).await, PutEnd::Status(412));
        let asked = serving.await.unwrap().remove(0);
        assert!(asked.starts_with("put /object ") && asked.ends_with("\r\n\r\nbytes"), "{asked}");
        assert!(asked.contains("if-none-match: *") && asked.contains("content-length: 5"), "{asked}");
        assert!(!asked.contains("transfer-encoding"), "{asked}");
        assert_eq!(put(http().unwrap(), one.clone(), |_| {}).await, PutEnd::Lost, "nobody is there");
        std::fs::remove_file(path).unwrap();
    }

    #[tokio::test]
    async fn only_a_file_that_is_gone_or_shorter_will_never_be_read() {
        let path = place("unread");
        std::fs::write(&path, b"some bytes").unwrap();
        let one = Put {
            path: path.clone(),
            offset: 5,
            bytes: 5,
            url: "http://127.0.0.1:1/".to_owned(),
            headers: vec![],
            sealed: None,
        };
        let end = async |one: Put| put(http().unwrap(), one, |_| {}).await;
        assert!(matches!(end(Put { bytes: 50, ..one.clone() }).await, PutEnd::Unreadable(_)));
        let too_much = Put { bytes: MEDIA_WHOLE_BYTES_MAX + 1, ..one.clone() };
        assert!(matches!(end(too_much).await, PutEnd::Unreadable(_)));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(end(one.clone()).await, PutEnd::Unreadable(_)));
        // A directory in place of the file, for any other error: opening may succeed, reading fails.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(end(one).await, PutEnd::Lost);
        std::fs::remove_dir(path).unwrap();
    }

    #[tokio::test]
    async fn what_breaks_goes_on_where_it_was_and_only_what_is_whole_is_kept() {
        let (url, serving) = server(vec![
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
            "HTTP/1.1 403 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 206 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nlo",
        ])
        .await;
        let to = place("got");
        let beside = || {
            let names = std::fs::read_dir(to.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
            names.filter(|name| name.to_string_lossy().starts_with(&*to.to_string_lossy())).collect::<Vec<_>>()
        };
        let mut fetch = Fetch::new(&hello(), &to).unwrap();
        let http = http().unwrap();
        assert!(matches!(fetch.try_once(&http, &url).await, Ok(Fetched::Broken(_))));
        assert!(matches!(fetch.try_once(&http, &url).await, Ok(Fetched::UrlEnded)));
        assert!(matches!(fetch.try_once(&http, &url).await, Ok(Fetched::All)));
        // A second, abandoned fetch to the same path leaves the data of the first alone.
        drop(Fetch::new(&hello(), &to).unwrap());
        fetch.end(&to).unwrap();
        assert_eq!((std::fs::read(&to).unwrap().as_slice(), beside()), (&b"hello"[..], vec![to.clone()]));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;

            let mode = std::fs::metadata(&to).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "what people send is for nobody else on this machine: {mode:o}");
        }
        let asked = serving.await.unwrap();
        assert!(!asked[0].contains("range:") && asked[2].contains("range: bytes=3-"), "{asked:?}");
        std::fs::remove_file(&to).unwrap();

        let (url, _serving) = server(vec!["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhallo"]).await;
        let mut fetch = Fetch::new(&hello(), &to).unwrap();
        assert!(matches!(fetch.try_once(&http, &url).await, Ok(Fetched::All)));
        assert!(fetch.end(&to).is_err());
        assert_eq!(beside(), Vec::<PathBuf>::new());
    }

    #[tokio::test]
    async fn an_encrypted_file_goes_on_within_a_segment_and_another_is_not_kept() {
        let bytes = b"some bytes".repeat(150_000);
        let sealed = SealedFile::of(&mut io::Cursor::new(&bytes), bytes.len() as u64).unwrap();
        let put = SealedPut { key: sealed.key.clone(), bytes: bytes.len() as u64, sha256: sealed.sha256.clone() };
        let length = sealed_file_bytes(bytes.len() as u64).unwrap();
        let stored = put.read(&mut io::Cursor::new(&bytes), 0, length).unwrap();
        let media = Media { bytes: bytes.len() as u64, sha256: sealed.sha256, key: Some(sealed.key), ..hello() };
        let answer = |head: &str, body: &[u8]| {
            [format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes(), body]
                .concat()
        };
        let broken = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let broken = [broken.as_bytes(), &stored[..1_200_000]].concat();
        let (url, serving) = server(vec![broken, answer("206 OK", &stored[1_200_000..])]).await;
        let to = place("sealed");
        let http = http().unwrap();
        let mut fetch = Fetch::new(&media, &to).unwrap();
        assert!(matches!(fetch.try_once(&http, &url).await, Ok(Fetched::Broken(_))));
        // A whole segment is there, and nothing of the next one.
        assert_eq!(std::fs::metadata(&fetch.part).unwrap().len(), 1024 * 1024);
        assert!(matches!(fetch.try_once(&http, &url).await, Ok(Fetched::All)));
        fetch.end(&to).unwrap();
        assert!(std::fs::read(&to).unwrap() == bytes);
        assert!(serving.await.unwrap()[1].contains("range: bytes=1200000-"));
        std::fs::remove_file(&to).unwrap();

        let mut turned = stored.clone();
        turned[1_200_000] ^= 1;
        let (url, _serving) = server(vec![answer("200 OK", &turned)]).await;
        let mut fetch = Fetch::new(&media, &to).unwrap();
        assert!(matches!(fetch.try_once(&http, &url).await, Err(Error::File(_))));
        assert_eq!(std::fs::metadata(&fetch.part).unwrap().len(), 1024 * 1024);
        drop(fetch);
        assert!(!to.exists());

        // The file of the app has changed since it was announced.
        let path = place("changed");
        std::fs::write(&path, b"any bytes!".repeat(150_000)).unwrap();
        let url = "http://127.0.0.1:1/".to_owned();
        let one = Put { path: path.clone(), offset: 0, bytes: length, url, headers: vec![], sealed: Some(put) };
        assert!(matches!(super::put(http, one, |_| {}).await, PutEnd::Unreadable(_)));
        std::fs::remove_file(path).unwrap();
    }
}
