package runs

// MaxText, MessageQuestion and RunTries export constants for tests.
const MaxText = maxText
const MessageQuestion = messageQuestion
const RunTries = runTries
