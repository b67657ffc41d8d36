#!/usr/bin/env bash
# Empties what a user wrote: `docs/examples/erase-user.sh USER_ID`.
#
# INBOX, MESSAGES and CONVERSATIONS are the tables of the stack's outputs, and ADMIN is its AdminFunctionName. The
# credentials may read and update the tables and invoke the function.
#
# Before: stop the user at your issuer, and suspend the user until the last token has expired.
#
# The script deletes messages with media by `admin`, which deletes the objects too, and empties other messages and their
# previews. The rows stay: without a `seq`, clients would request it for ever, and without a member's inbox row, each
# `send` would fail with `conflict`. The user's id stays where it names an author, a member or a block.
#
# After:
# - Delete the user's rows in the audit table, and in the connections table the row with the connection_id ` last seen`.
# - Delete the user's rows of channels (`ch_…`) in the inbox, the members and the idempotency table (a sender_key with
#   two spaces), and empty the user's posts in channels like other messages.
# - For each row in the devices table, run `aws sns delete-endpoint --endpoint-arn` with its endpoint_arn, then delete
#   the row. An endpoint keeps the phone's token without end.
# - Delete the user's rows in the keys table, and the rows of the user's direct conversations in the epochs table.
# - Keep the id outside of AWS, and erase again after you restore tables: backups have the text for `BackupDays` (35).
#
# What expires by itself: the rows of connections, idempotency, watchers and uploads, within days; the inbox stream with
# previews, after 24 hours; your servers' messages in the queues, after 14 days; logs, after LogRetentionDays.
set -u
user=$1
# Rows without a last_seq are counters and blocks, which contain no text.
aws dynamodb query --table-name "$INBOX" --key-condition-expression 'user_id = :user' --filter-expression 'attribute_exists(last_seq)' \
    --output text --expression-attribute-values "{\":user\": {\"S\": \"$user\"}}" --query 'Items[].[conversation_id.S, peer_id.S]' |
while read -r conversation peer; do
    aws dynamodb query --table-name "$MESSAGES" --key-condition-expression 'conversation_id = :id' --output text \
        --filter-expression 'sender_id = :user' --query 'Items[].[seq.N, media.S]' \
        --expression-attribute-values "{\":user\": {\"S\": \"$user\"}, \":id\": {\"S\": \"$conversation\"}}" |
    while read -r seq media; do
        if [ "$media" != None ]; then
            just admin "{\"op\": \"delete_message\", \"conversation_id\": \"$conversation\", \"seq\": $seq}" "$ADMIN"
        fi
        aws dynamodb update-item --table-name "$MESSAGES" --update-expression 'SET body = :none' \
            --key "{\"conversation_id\": {\"S\": \"$conversation\"}, \"seq\": {\"N\": \"$seq\"}}" \
            --expression-attribute-values '{":none": {"S": ""}}'
    done
    for member in "$user" "$peer"; do
        # Fails if the other member wrote last; that preview stays.
        aws dynamodb update-item --table-name "$INBOX" --update-expression 'SET last_preview = :none' \
            --key "{\"user_id\": {\"S\": \"$member\"}, \"conversation_id\": {\"S\": \"$conversation\"}}" \
            --condition-expression 'last_sender_id = :user' \
            --expression-attribute-values "{\":none\": {\"S\": \"\"}, \":user\": {\"S\": \"$user\"}}" || true
    done
    # The preview of a group. Fails if another member wrote last, and in a direct conversation.
    aws dynamodb update-item --table-name "$CONVERSATIONS" --update-expression 'SET shown_preview = :none' \
        --key "{\"conversation_id\": {\"S\": \"$conversation\"}}" --condition-expression 'shown_sender = :user' \
        --expression-attribute-values "{\":none\": {\"S\": \"\"}, \":user\": {\"S\": \"$user\"}}" || true
done
