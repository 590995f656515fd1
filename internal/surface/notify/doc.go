// Package notify sends notifications about events of the gateway by signed webhooks, Slack and
// mail. It reads the journal, so that no event waits for a notification. It keeps the queue of each
// target in the store, so that a restart loses no notification. It makes no decisions: a vote from
// a chat is cast at the approval desk like every other vote (voter.go).
package notify
