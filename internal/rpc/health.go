package rpc

import (
	"context"

	"connectrpc.com/connect"

	healthv1 "palyra/gen/grpc/health/v1"
	"palyra/gen/grpc/health/v1/healthv1connect"
)

// newHealthHandler serves the standard health check (grpc.health.v1): SERVING
// when the gateway is ready. It says no more than that, and needs no
// credential.
func newHealthHandler(gw Gateway, opts ...connect.HandlerOption) *connect.Handler {
	return connect.NewUnaryHandlerSimple(healthv1connect.HealthCheckProcedure,
		func(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
			state := healthv1.HealthCheckResponse_SERVING
			if len(gw.Problems(ctx)) > 0 {
				state = healthv1.HealthCheckResponse_NOT_SERVING
			}
			return &healthv1.HealthCheckResponse{Status: state}, nil
		}, opts...)
}
