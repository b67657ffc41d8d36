//! S3 in this process, as far as media need it: objects, uploads in parts, and clients that put by a URL. Signatures
//! are not checked: the end-to-end tests have an S3 that does.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Stored objects and uploads. Clones share nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeS3 {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
    begun: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct Object {
    bytes: usize,
    mime: String,
    checksum: String,
}

/// An upload in parts that is not put together yet.
#[derive(Clone, Debug, PartialEq)]
struct Upload {
    mime: String,
    /// By number: how long, and the digest.
    parts: BTreeMap<u64, (usize, String)>,
}

/// Returns the call's name in permissions, with the parts of its path and query. `None` if the call is not to S3.
pub(crate) fn parse<'a>(
    method: &str,
    header: impl Fn(&str) -> Option<&'a str>,
    url: &str,
) -> Option<(&'static str, Value)> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let key = path.find("/media/").map(|at| &path[at + 1..])?;
    let copy_source = header("x-amz-copy-source");
    let query: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let has = |name: &str| query.contains_key(name);
    let operation = match method {
        "HEAD" => "HeadObject",
        "DELETE" if has("uploadId") => "AbortMultipartUpload",
        "DELETE" => "DeleteObject",
        "POST" if has("uploads") => "CreateMultipartUpload",
        "POST" => "CompleteMultipartUpload",
        "GET" if has("uploadId") => "ListParts",
        "GET" => "GetObject",
        "PUT" if copy_source.is_some() => "CopyObject",
        "PUT" if has("partNumber") => "UploadPart",
        "PUT" => "PutObject",
        _ => return None,
    };
    let source = copy_source.and_then(|source| source.find("media/").map(|at| &source[at..]));
    let (upload_id, part) = (query.get("uploadId"), query.get("partNumber"));
    let mime = header("content-type");
    Some((
        operation,
        json!({"key": key, "upload_id": upload_id, "part": part, "source": source, "mime": mime, "sent": ""}),
    ))
}

impl FakeS3 {
    /// The keys of all objects.
    pub fn keys(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }

    /// How many uploads in parts are not put together.
    pub fn uploads(&self) -> usize {
        self.uploads.len()
    }

    /// Puts by a URL and the headers that go with it, as a client does. The status.
    pub fn put(&mut self, url: &str, headers: &Value, body: &[u8]) -> u16 {
        let (operation, call) = parse("PUT", |_| None, url).expect("a URL of S3");
        let key = call["key"].as_str().unwrap().to_owned();
        let checksum = BASE64.encode(&Sha256::digest(body));
        if headers["x-amz-checksum-sha256"] != json!(checksum) {
            return 400;
        }
        if operation == "UploadPart" {
            let Some(upload) = call["upload_id"].as_str().and_then(|id| self.uploads.get_mut(id)) else { return 404 };
            upload.parts.insert(call["part"].as_str().unwrap().parse().unwrap(), (body.len(), checksum));
            return 200;
        }
        if self.objects.contains_key(&key) {
            return 412;
        }
        let mime = headers["content-type"].as_str().unwrap().to_owned();
        self.objects.insert(key, Object { bytes: body.len(), mime, checksum });
        200
    }

    /// An object that came to be there some other way.
    pub fn insert(&mut self, key: &str, mime: &str, body: &[u8]) {
        let checksum = BASE64.encode(&Sha256::digest(body));
        self.objects.insert(key.to_owned(), Object { bytes: body.len(), mime: mime.to_owned(), checksum });
    }

    /// Returns the status and body of the reply. For `HeadObject`, the body is the headers, a line each.
    pub fn perform(&mut self, operation: &str, call: &Value) -> (u16, String) {
        let key = call["key"].as_str().unwrap();
        let upload_id = call["upload_id"].as_str().unwrap_or_default();
        match operation {
            "HeadObject" => match self.objects.get(key) {
                None => (404, String::new()),
                Some(Object { bytes, mime, checksum }) => {
                    (200, format!("content-length: {bytes}\ncontent-type: {mime}\nx-amz-checksum-sha256: {checksum}"))
                }
            },
            "DeleteObject" => {
                self.objects.remove(key);
                (204, String::new())
            }
            "CopyObject" => {
                let Some(object) = self.objects.get(call["source"].as_str().unwrap()).cloned() else {
                    return error(404, "NoSuchKey");
                };
                self.objects.insert(key.to_owned(), object);
                ok("<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")
            }
            "CreateMultipartUpload" => {
                self.begun += 1;
                let id = format!("upload-{}", self.begun);
                let mime = call["mime"].as_str().unwrap().to_owned();
                let upload = Upload { mime, parts: BTreeMap::new() };
                self.uploads.insert(id.clone(), upload);
                ok(&format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"))
            }
            "ListParts" => match self.uploads.get(upload_id) {
                None => error(404, "NoSuchUpload"),
                Some(upload) => {
                    let part = |(number, (_, digest)): (&u64, &(usize, String))| {
                        format!(
                            "<Part><PartNumber>{number}</PartNumber><ETag>e{number}</ETag><ChecksumSHA256>{digest}</ChecksumSHA256></Part>"
                        )
                    };
                    let parts: String = upload.parts.iter().map(part).collect();
                    ok(&format!("<ListPartsResult>{parts}</ListPartsResult>"))
                }
            },
            "CompleteMultipartUpload" => self.complete(key, upload_id, call["sent"].as_str().unwrap()),
            "AbortMultipartUpload" => match self.uploads.remove(upload_id) {
                None => error(404, "NoSuchUpload"),
                Some(_) => (204, String::new()),
            },
            _ => panic!("no handler asks for {operation}"),
        }
    }

    fn complete(&mut self, key: &str, upload_id: &str, sent: &str) -> (u16, String) {
        let Some(upload) = self.uploads.remove(upload_id) else { return error(404, "NoSuchUpload") };
        // S3 requires each part's digest again if the upload has digests.
        for (_, digest) in upload.parts.values() {
            assert!(sent.contains(digest), "{sent}");
        }
        let digests = upload.parts.values().map(|(_, digest)| BASE64.decode(digest.as_bytes()).unwrap());
        let digest = BASE64.encode(&digests.fold(Sha256::new(), Sha256::chain_update).finalize());
        let bytes = upload.parts.values().map(|(bytes, _)| bytes).sum();
        let checksum = format!("{digest}-{}", upload.parts.len());
        self.objects.insert(key.to_owned(), Object { bytes, mime: upload.mime, checksum });
        ok("<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
    }
}

fn ok(body: &str) -> (u16, String) {
    (200, format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{body}"))
}

pub(crate) fn error(status: u16, code: &str) -> (u16, String) {
    (
        status,
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>m</Message></Error>"),
    )
}
