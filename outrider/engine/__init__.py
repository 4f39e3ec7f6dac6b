"""The engine: loads a model, keeps KV state, runs forwards on one model thread.

It knows token ids only: no gRPC, no text.
"""
