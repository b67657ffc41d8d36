//! Notifications to phones, through SNS.
