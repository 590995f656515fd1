package runs

// These names export constants for tests.
const MaxText = maxText
const MessageQuestion = messageQuestion
const RunTries = runTries
