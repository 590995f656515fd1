package approvals

// What the tests from outside look into.
var GrantState = grantState
