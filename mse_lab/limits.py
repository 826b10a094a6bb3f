"""Limits: how large and how small a number may be, so that all computed from it is one."""

# The largest reward, squared score norm, and weight of a user's own estimator; below the
# least they count as zero. What pools hold beside them are products of up to three of
# these, as an error is. The highest power of an error is its fourth, in the uncertainty of
# its variance: 1e300 and 1e-300, where float64 reaches from 2e-308 to 1.8e308.
LARGEST, LEAST = 1e25, 1e-25
