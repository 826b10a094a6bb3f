"""Limits: how large a number may be, so that all that is computed from it is one, too."""

# The largest reward, squared score norm, and weight of a user's own estimator. What the
# pools hold beside them are products of up to three of these, as an error is; what is
# computed squares them: 1e180 fits into float64, whose largest is 1.8e308.
LARGEST = 1e30
