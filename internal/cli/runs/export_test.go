package runs

// What the tests from outside look into.
const MaxTask = maxTask
const MessageQuestion = messageQuestion
const RunTries = runTries
