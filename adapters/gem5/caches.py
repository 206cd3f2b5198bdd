"""Caches of the configurations beside this file."""

from m5.objects import Cache


def cache(size: str, assoc: int, latency: int, mshrs: int) -> Cache:
    """A cache whose tags, data and responses take `latency` cycles each."""
    return Cache(
        size=size,
        assoc=assoc,
        tag_latency=latency,
        data_latency=latency,
        response_latency=latency,
        mshrs=mshrs,
        tgts_per_mshr=16,
    )
