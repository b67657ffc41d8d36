//! The attacks on encrypted conversations, and the test of each. A test that is renamed or goes fails here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::Path;

const SEALING: &str = "clients/sealing/tests/";

/// An attack, the files of its tests, and their names.
const ATTACKS: &[(&str, &[(&str, &str)])] = &[
    // -- Late, left out and repeated
    (
        "a Welcome that is opened three commits late",
        &[
            ("secrecy.rs", "a_welcome_opens_three_commits_later_with_its_own_tree"),
            ("groups.rs", "who_is_added_reads_from_there_on_by_a_welcome_that_is_three_commits_old"),
        ],
    ),
    (
        "a Welcome that comes again",
        &[("upkeep.rs", "a_removed_device_does_not_come_back_by_the_welcome_that_it_has_used")],
    ),
    ("an old commit at a new place", &[("betrayals.rs", "an_old_commit_at_a_new_place_changes_nothing")]),
    ("a commit that is left out", &[("betrayals.rs", "a_commit_that_was_left_out_is_followed_by_a_reset_once_a_day")]),
    ("entries behind a gap", &[("betrayals.rs", "an_entry_behind_a_gap_waits_and_the_log_is_due")]),
    ("an old group info", &[("betrayals.rs", "a_stale_group_info_is_refused")]),
    (
        "a message that comes again after a commit",
        &[("functions/keys/tests/commits.rs", "what_is_stored_gets_its_first_reply_however_many_epochs_later")],
    ),
    // -- Members
    (
        "remove, against joins without end",
        &[("groups.rs", "a_user_who_commits_without_end_is_removed_without_a_commit")],
    ),
    (
        "leave, then add",
        &[
            ("groups.rs", "a_user_who_leaves_and_is_added_again_reads_nothing_between"),
            ("functions/keys/tests/groups.rs", "nothing_is_sealed_until_a_commit_names_who_left"),
        ],
    ),
    (
        "a commit of others than its entry names",
        &[("groups.rs", "a_commit_does_what_its_entry_names_and_nothing_else")],
    ),
    ("a birth with a stranger", &[("hostile.rs", "a_birth_with_a_stranger_or_a_later_epoch_is_refused")]),
    ("a birth by a former member", &[("groups.rs", "a_birth_by_who_left_is_not_followed")]),
    (
        "a device of the server's, with another identity",
        &[
            ("hostile.rs", "a_ghost_by_another_identity_is_refused"),
            ("hostile.rs", "a_join_is_of_a_known_identity_and_removes_the_same_device_alone"),
        ],
    ),
    ("a device that no identity signed", &[("hostile.rs", "a_device_that_its_identity_did_not_sign_is_refused")]),
    ("another user's package for the claimed one", &[("hostile.rs", "a_claimed_package_is_checked_before_use")]),
    (
        "a commit that nobody can follow",
        &[("groups.rs", "what_nobody_can_follow_ends_with_a_birth_and_a_remove_needs_no_commit")],
    ),
    // -- Messages
    (
        "an edit of another user's text",
        &[
            ("clients/core/tests/sealed.rs", "an_edit_of_another_users_text_changes_nothing"),
            ("clients/web/test/changes.test.ts", "an encrypted edit of another user's text changes nothing"),
        ],
    ),
    (
        "a change that the server moves to another message",
        &[
            ("clients/core/src/store/tests.rs", "an_encrypted_change_holds_if_it_names_the_id_of_its_target"),
            ("clients/web/test/changes.test.ts", "an encrypted change is of the message that its author names"),
        ],
    ),
    ("plain text behind a birth", &[("betrayals.rs", "nothing_plain_is_shown_behind_a_birth")]),
    (
        "a sealed conversation that begins again as a plain one",
        &[("betrayals.rs", "a_conversation_that_was_sealed_does_not_begin_again_as_a_plain_one")],
    ),
    ("a mark that is wrong in every message", &[("betrayals.rs", "a_wrong_mark_is_counted_and_resets_nothing")]),
    (
        "an entry at another place, epoch, sender or conversation",
        &[
            ("betrayals.rs", "an_entry_of_another_place_is_forged_and_the_genuine_one_opens_behind_it"),
            ("betrayals.rs", "an_entry_of_another_conversation_is_not_opened"),
        ],
    ),
    (
        "a corrupted copy before the genuine message",
        &[("hostile.rs", "a_corrupted_copy_takes_nothing_from_the_genuine_one")],
    ),
    (
        "a name twice, and other second readings",
        &[("clients/sealing/src/envelope.rs", "an_envelope_with_two_readings_is_none")],
    ),
    // -- Reports
    (
        "delete, then report; and a copied digest",
        &[("functions/inbox/tests/report.rs", "what_a_sealed_message_says_is_proved")],
    ),
    (
        "a missing, false or copied digest",
        &[
            ("upkeep.rs", "a_message_without_the_digest_for_a_report_or_with_a_false_or_copied_one_is_not_shown"),
            ("functions/media/tests/sealed.rs", "where_reports_are_on_each_sealed_message_has_its_digest"),
        ],
    ),
    // -- Files
    (
        "a file that is cut, swapped, or whose last piece is gone",
        &[
            ("clients/sealing/src/file.rs", "a_file_that_is_cut_swapped_or_another_is_refused"),
            ("clients/rust/src/transfer.rs", "an_encrypted_file_goes_on_within_a_segment_and_another_is_not_kept"),
            ("clients/web/test/files.test.ts", "opens what was sealed, and refuses other bytes"),
        ],
    ),
    ("a file of another entry", &[("clients/sealing/src/envelope.rs", "a_file_is_that_of_its_entry_and_has_its_key")]),
    (
        "a file that is taken twice, another's, or gone",
        &[
            ("functions/media/tests/sealed.rs", "a_message_takes_no_other_media_than_its_sender_s_upload_for_it"),
            ("functions/media/tests/sealed.rs", "a_sealed_file_is_sent_fetched_and_deleted"),
        ],
    ),
    (
        "a commit by files: taken twice, another's, or gone",
        &[
            ("functions/media/tests/commit_files.rs", "a_commit_takes_no_other_file_than_its_sender_s_for_it"),
            ("functions/media/tests/commit_files.rs", "a_file_that_waited_for_a_day_is_gone"),
        ],
    ),
    ("a commit by files: other bytes", &[("groups.rs", "a_large_group_has_its_bytes_in_files_and_takes_no_others")]),
    // -- Keys
    (
        "a copied state after the next commit",
        &[("secrecy.rs", "a_copied_state_reads_until_the_next_update_and_a_removed_device_nothing")],
    ),
    ("the rows of a device, for earlier messages", &[("betrayals.rs", "the_rows_open_no_earlier_message")]),
    (
        "another identity of a verified user",
        &[("upkeep.rs", "another_identity_is_told_and_holds_what_waits_for_a_verified_user")],
    ),
    (
        "a server that hands out last resorts alone",
        &[("upkeep.rs", "who_joins_by_the_last_resort_renews_its_keys_and_replaces_it")],
    ),
    (
        "a user who empties another's packages",
        &[("functions/keys/tests/keys.rs", "a_user_gets_ten_packages_of_anothers_device_in_a_day")],
    ),
];

#[test]
fn each_attack_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (attack, tests) in ATTACKS {
        for (file, name) in *tests {
            let file = if file.contains('/') { (*file).to_owned() } else { format!("{SEALING}{file}") };
            let text = std::fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let begins = [format!("fn {name}("), format!("it(\"{name}")];
            assert!(begins.iter().any(|begin| text.contains(begin)), "{attack}: {file} has no test {name}");
        }
    }
}
