#!/bin/sh -e
# Creates a user in Amazon Cognito and prints a token, for `just smoke`: `cognito-token.sh NAME SECONDS`.
# POOL is the user pool's id, and CLIENT the id of an app client that allows ADMIN_USER_PASSWORD_AUTH.
password="Aa1!$(openssl rand -hex 16)"
aws cognito-idp admin-create-user --user-pool-id "$POOL" --username "$1" --message-action SUPPRESS >/dev/null
aws cognito-idp admin-set-user-password --user-pool-id "$POOL" --username "$1" --password "$password" --permanent
aws cognito-idp admin-initiate-auth --user-pool-id "$POOL" --client-id "$CLIENT" --auth-flow ADMIN_USER_PASSWORD_AUTH \
    --auth-parameters "USERNAME=$1,PASSWORD=$password" --query AuthenticationResult.IdToken --output text
