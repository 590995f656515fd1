// Package notify tells people elsewhere what happens in the gateway: by signed webhooks,
// in Slack, by mail. It reads the journal, so that nothing which is recorded waits for
// it, and keeps what it owes each target in the store, so that a restart loses nothing.
// It decides nothing: a vote that comes from elsewhere is cast at the approval desk like
// every other (voter.go).
package notify
