//! Media as objects in S3: signs URLs for one upload or one download each, and checks an uploaded object.
//!
//! A URL is signed here, without a call. Its signature covers the headers with the size, the type, the digest, and the
//! condition that no object exists. So S3 itself refuses everything else.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::head_object::HeadObjectError;
use aws_sdk_s3::presigning::{PresignedRequest, PresigningConfig};
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumMode, CompletedMultipartUpload, CompletedPart, TaggingDirective};
use domain::{Failure, MediaRow, PartOf, Parts, ServiceError, disposition, parts_of, served_as};
use wire::Timestamp;

/// One attempt at one call: S3 puts a hundred MiB together, or copies them, in seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// One call with the SDK's own retries.
const CALL_TIMEOUT: Duration = Duration::from_secs(12);

/// The way to the objects. Cheap to clone; made once per process.
#[derive(Clone, Debug)]
pub struct Objects {
    client: Client,
    bucket: String,
}

/// A call that failed. Never shown to a client.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
pub struct Error {
    operation: &'static str,
    source: BoxError,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

/// Where to put something, and what to send with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    pub url: String,
    pub headers: BTreeMap<String, String>,
}

/// From when on a URL is good, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    pub from: Timestamp,
    pub ttl: Duration,
}

impl Objects {
    pub fn new(client: Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into() }
    }

    pub fn from_sdk(sdk: &SdkConfig, bucket: impl Into<String>) -> Self {
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
        let config = aws_sdk_s3::config::Builder::from(sdk).timeout_config(timeouts);
        Self::new(Client::from_conf(config.build()), bucket)
    }

    /// Where to put all of an object.
    ///
    /// # Errors
    /// There are no credentials to sign with.
    pub async fn put_url(&self, row: &MediaRow, validity: Validity) -> Result<Put, Error> {
        let put = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(row.key())
            .content_type(row.mime.as_str())
            .content_length(length(row.bytes))
            .checksum_sha256(row.sha256.as_str())
            .if_none_match("*");
        put.presigned(presigning(validity)?)
            .await
            .map(|request| signed(&request))
            .map_err(|error| failed("PutObject", error))
    }

    /// Where to put a part of it.
    ///
    /// # Errors
    /// There are no credentials to sign with.
    pub async fn part_url(
        &self,
        row: &MediaRow,
        parts: &Parts,
        part: PartOf,
        validity: Validity,
    ) -> Result<Put, Error> {
        let digest = digest_of(parts, part.number);
        let put = self
            .client
            .upload_part()
            .bucket(&self.bucket)
            .key(row.key())
            .upload_id(&parts.upload_id)
            .part_number(number(part.number))
            .content_length(length(part.bytes))
            .set_checksum_sha256(digest.map(str::to_owned));
        put.presigned(presigning(validity)?)
            .await
            .map(|request| signed(&request))
            .map_err(|error| failed("UploadPart", error))
    }

    /// Returns the URL of an object. Browsers save the object, whatever its type, and never run it.
    ///
    /// # Errors
    /// There are no credentials to sign with.
    pub async fn get_url(&self, row: &MediaRow, validity: Validity) -> Result<String, Error> {
        let get = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(row.key())
            .response_content_type(served_as(&row.kind, &row.mime))
            // These replace headers that the uploader may have stored with the object: the upload's URL signs none of them.
            .response_cache_control("private, no-store")
            .response_content_disposition(disposition(row.name.as_ref()));
        let request = get.presigned(presigning(validity)?).await.map_err(|error| failed("GetObject", error))?;
        Ok(request.uri().to_owned())
    }

    /// Begins an upload in parts: what S3 calls it.
    ///
    /// # Errors
    /// Whatever kept S3 from doing it.
    pub async fn begin_parts(&self, row: &MediaRow) -> Result<String, Error> {
        let operation = "CreateMultipartUpload";
        let begin = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(row.key())
            .content_type(row.mime.as_str())
            .checksum_algorithm(ChecksumAlgorithm::Sha256);
        let answer = begin.send().await.map_err(|error| failed(operation, error))?;
        answer.upload_id.ok_or_else(|| Error { operation, source: "S3 named no upload".into() })
    }

    /// Returns the missing parts, or `None` if the upload has ended, completed or aborted.
    ///
    /// # Errors
    /// The call to S3 failed.
    pub async fn missing_parts(&self, row: &MediaRow, parts: &Parts) -> Result<Option<Vec<PartOf>>, Error> {
        let Some(there) = self.list_parts(row, parts).await? else { return Ok(None) };
        let is_there = |part: &PartOf| there.iter().any(|found| found.part_number() == Some(number(part.number)));
        Ok(Some(parts_of(row.bytes).filter(|part| !is_there(part)).collect()))
    }

    /// Returns the parts that are present with the announced digest, or `None` if the upload has ended.
    async fn list_parts(&self, row: &MediaRow, parts: &Parts) -> Result<Option<Vec<CompletedPart>>, Error> {
        let list = self.client.list_parts().bucket(&self.bucket).key(row.key()).upload_id(&parts.upload_id);
        let listed = match list.send().await {
            Ok(listed) => listed,
            Err(error) if error.code() == Some("NoSuchUpload") => return Ok(None),
            Err(error) => return Err(failed("ListParts", error)),
        };
        let announced = |number: i32| u64::try_from(number).ok().and_then(|number| digest_of(parts, number));
        let right = listed.parts().iter().filter(|part| {
            // The signature of a part's URL covers its size and its digest, so S3 has no other part. The comparison
            // proves it.
            part.checksum_sha256().is_some() && part.checksum_sha256() == part.part_number().and_then(announced)
        });
        let completed = right.map(|part| {
            CompletedPart::builder()
                .set_part_number(part.part_number)
                .set_e_tag(part.e_tag.clone())
                .set_checksum_sha256(part.checksum_sha256.clone())
                .build()
        });
        Ok(Some(completed.collect()))
    }

    /// Assembles the parts, if all are present and no earlier call has done it.
    ///
    /// # Errors
    /// A call to S3 failed.
    pub async fn finish_parts(&self, row: &MediaRow, parts: &Parts) -> Result<(), Error> {
        let there = self.list_parts(row, parts).await?;
        let Some(there) = there.filter(|there| there.len() == parts_of(row.bytes).count()) else { return Ok(()) };
        let finish = self
            .client
            .complete_multipart_upload()
            .bucket(&self.bucket)
            .key(row.key())
            .upload_id(&parts.upload_id)
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(there)).build());
        match finish.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("NoSuchUpload") => Ok(()),
            Err(error) => Err(failed("CompleteMultipartUpload", error)),
        }
    }

    /// Whether all of the object is there, and is what was announced.
    ///
    /// # Errors
    /// Whatever kept S3 from saying it.
    pub async fn is_there(&self, row: &MediaRow) -> Result<bool, Error> {
        let head = self.client.head_object().bucket(&self.bucket).key(row.key()).checksum_mode(ChecksumMode::Enabled);
        let found = match head.send().await {
            Ok(found) => found,
            Err(error) if error.as_service_error().is_some_and(HeadObjectError::is_not_found) => return Ok(false),
            Err(error) => return Err(failed("HeadObject", error)),
        };
        // An assembled object has the digest of its parts' digests, followed by their number.
        let digest = found.checksum_sha256().map(|digest| digest.split_once('-').map_or(digest, |(digest, _)| digest));
        let is_whole = found.content_length() == Some(length(row.bytes)) && digest == Some(row.sha256.as_str());
        // A URL leaves this header to the client. A stack that decodes by itself would unpack what the announced size does not bound.
        Ok(is_whole && found.content_type() == Some(row.mime.as_str()) && found.content_encoding().is_none())
    }

    /// Requests an object that does not exist, to see that S3 replies.
    ///
    /// # Errors
    /// S3 did not reply.
    pub async fn answers(&self) -> Result<(), Error> {
        match self.client.head_object().bucket(&self.bucket).key("media/-").send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(HeadObjectError::is_not_found) => Ok(()),
            Err(error) => Err(failed("HeadObject", error)),
        }
    }

    /// Copies an object within S3; `false`: it is gone.
    ///
    /// # Errors
    /// Whatever kept S3 from doing it.
    pub async fn copy(&self, from: &MediaRow, to: &MediaRow) -> Result<bool, Error> {
        let source = format!("{}/{}", self.bucket, from.key());
        let copy = self.client.copy_object().bucket(&self.bucket).key(to.key()).copy_source(source);
        // The copy has no tags of the original's scan, because GuardDuty scans the copy too. The function may neither read
        // nor set tags.
        let copy = copy.tagging_directive(TaggingDirective::Replace);
        match copy.send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("NoSuchKey") => Ok(false),
            Err(error) => Err(failed("CopyObject", error)),
        }
    }

    /// Removes an object and its uploaded parts. A missing object is no error. The parts go first, so that no call can
    /// assemble them afterwards.
    ///
    /// # Errors
    /// A call to S3 failed.
    pub async fn remove(&self, key: &str, upload_id: Option<&str>) -> Result<(), Error> {
        if let Some(upload_id) = upload_id {
            let abort = self.client.abort_multipart_upload().bucket(&self.bucket).key(key).upload_id(upload_id);
            match abort.send().await {
                Ok(_) => {}
                Err(error) if error.code() == Some("NoSuchUpload") => {}
                Err(error) => return Err(failed("AbortMultipartUpload", error)),
            }
        }
        let remove = self.client.delete_object().bucket(&self.bucket).key(key);
        remove.send().await.map(drop).map_err(|error| failed("DeleteObject", error))
    }
}

fn presigning(validity: Validity) -> Result<PresigningConfig, Error> {
    let Validity { from, ttl } = validity;
    let start = UNIX_EPOCH + from.since(Timestamp::default());
    let presigning = PresigningConfig::builder().start_time(start).expires_in(ttl).build();
    presigning.map_err(|error| Error { operation: "signing", source: error.into() })
}

/// Returns the headers that a client must send, which are the signed ones. In Lambda the SDK adds others, which no page
/// may send. The browser sets the length of the body itself.
fn signed(request: &PresignedRequest) -> Put {
    let signed = request.uri().split('&').find_map(|field| field.strip_prefix("X-Amz-SignedHeaders="));
    let signed: Vec<&str> = signed.unwrap_or_default().split("%3B").collect();
    let is_for_client = |name: &str| signed.contains(&name) && !matches!(name, "host" | "content-length");
    let headers = request.headers().filter(|(name, _)| is_for_client(name));
    Put {
        url: request.uri().to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

fn digest_of(parts: &Parts, number: u64) -> Option<&str> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    parts.digests.get(place).map(wire::Digest::as_str)
}

fn length(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn number(part: u64) -> i32 {
    i32::try_from(part).unwrap_or(i32::MAX)
}

fn failed<E, R>(operation: &'static str, error: SdkError<E, R>) -> Error
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
    Error { operation, source: ServiceError::of(code, message, error) }
}
