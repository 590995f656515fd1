package rpc

// Services names every service that the API offers.
var Services = services
