package api

// Services names every service that the API offers.
var Services = services
