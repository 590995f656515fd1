package runs

// What the tests from outside look into.
const MaxText = maxText
const MessageQuestion = messageQuestion
const RunTries = runTries
